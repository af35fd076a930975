"""The instructions of tensor cores that work together, and how a warp holds their operands.

`wmma` keeps fragments in scopes of its own and says nothing of what each thread holds. `ldmatrix`
and `mma` work on registers that are spread over a warp in a known order. To find loops that fit
them, they go by the `wmma` instructions of the same tiles, whose matrices are in plain order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.arith import IndexMap
from tilewright.errors import TuneError
from tilewright.intrin.cuda_mma import shared_16x16_to_ldmatrix_32x8_layout
from tilewright.intrin.cuda_wmma import get_wmma_intrin_group
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import BlockRV, Schedule

_KEYS = ("init", "load_a", "load_b", "compute", "store")
_TILE = 16


@dataclass(frozen=True)
class IntrinGroup:
    """The names of the instructions that work on the same fragments."""

    init: str
    load_a: str
    load_b: str
    compute: str
    store: str

    @staticmethod
    def of(names: Mapping[str, str]) -> IntrinGroup:
        """A group from a dictionary, all of whose instructions are registered."""
        missing = [key for key in _KEYS if key not in names]
        unknown = sorted(set(names) - set(_KEYS))
        if missing or unknown:
            raise TuneError(
                f"MultiLevelTilingTensorCore: a group of instructions has the keys "
                f"{', '.join(_KEYS)}; missing: {missing}, unknown: {unknown}"
            )
        for name in names.values():
            TensorIntrin.get(name)  # raises if there is no such instruction
        return IntrinGroup(**names)

    @property
    def is_mma(self) -> bool:
        """Whether a warp holds operands in registers of a known order."""
        return self.compute.startswith("mma_")

    @property
    def tiles(self) -> IntrinGroup:
        """Instructions for the same tiles whose matrices are in plain order."""
        if not self.is_mma:
            return self
        kinds, _, trans = self.compute.removeprefix("mma_").partition("_")
        if kinds not in _WMMA_TYPES:
            raise TuneError(
                f"MultiLevelTilingTensorCore: of the mma instructions those of tiles of "
                f"16x16x16 are for it, {', '.join(_WMMA_TYPES)}, not {self.compute!r}"
            )
        scope = "shared.dyn" if self.load_a.endswith("_dyn") else "shared"
        return IntrinGroup.of(
            get_wmma_intrin_group(scope, scope, *_WMMA_TYPES[kinds], trans == "trans")
        )

    def scope(self, fragment: str) -> str:
        """Where a warp keeps "matrix_a", "matrix_b" or the "accumulator"."""
        return "warp" if self.is_mma else f"wmma.{fragment}"

    def spread(self, sch: Schedule, block: BlockRV, buffer: tuple[str, int]) -> None:
        """Let a warp hold a fragment in the order of its instructions."""
        if not self.is_mma:
            return
        kind, index = buffer
        stmt = sch.get_sref(block).block
        ndim = (stmt.reads if kind == "read" else stmt.writes)[index].buffer.ndim
        sch.transform_layout(block, buffer, _in_registers(ndim), assume_injective_transform=True)


_WMMA_TYPES = {"f16f16f32": ("float16", "float32"), "f16f16f16": ("float16", "float16")}


def _in_registers(ndim: int) -> IndexMap:
    def spread(*indices: Any) -> list[Any]:
        *outer, i, j = indices
        inside = shared_16x16_to_ldmatrix_32x8_layout(i % _TILE, j % _TILE)
        return [*outer, i // _TILE, j // _TILE, *inside]

    return IndexMap.from_func(spread, ndim)
