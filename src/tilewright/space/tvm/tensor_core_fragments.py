"""The instructions of tensor cores that work together, and how a warp holds their operands.

`wmma` keeps fragments in scopes of its own and says nothing of what each thread holds. `ldmatrix`
and `mma` work on registers that are spread over a warp in a known order. To find loops that fit
them, they go by the `wmma` instructions of the same tiles, whose matrices are in plain order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.arith import IndexMap
from tilewright.errors import TuneError
from tilewright.ir.tensor_intrin import TensorIntrin, description_nest
from tilewright.schedule import BlockRV, Schedule

_KEYS = ("init", "load_a", "load_b", "compute", "store")
# Of the types that `mma` instructions name: operands and sums of `wmma` tiles.
_WMMA_TYPES = {"f16f16f32": ("f16", "f32"), "f16f16f16": ("f16", "f16")}


def wmma_group(
    in_dtype: str, out_dtype: str, trans_b: bool, scope: str = "shared_dyn"
) -> dict[str, str]:
    """The instructions that load, multiply and store 16x16x16 tiles of these types."""
    tile, trans = "16x16x16", "_trans" if trans_b else ""
    return {
        "init": f"wmma_fill_{tile}_{out_dtype}",
        "load_a": f"wmma_load_{tile}_{in_dtype}_a_{scope}",
        "load_b": f"wmma_load_{tile}_{in_dtype}_b{trans}_{scope}",
        "compute": f"wmma_sync_{tile}_{in_dtype}{in_dtype}{out_dtype}{trans}",
        "store": f"wmma_store_{tile}_{out_dtype}_{scope}",
    }


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
        scope = "shared_dyn" if self.load_a.endswith("_dyn") else "shared"
        return IntrinGroup(**wmma_group(*_WMMA_TYPES[kinds], trans == "trans", scope))

    def scope(self, fragment: str) -> str:
        """Where a warp keeps "matrix_a", "matrix_b" or the "accumulator"."""
        return "warp" if self.is_mma else f"wmma.{fragment}"

    def spread(self, sch: Schedule, block: BlockRV, kind: str, writer: str) -> None:
        """Let a warp hold what a block reads or writes in the order in which `writer` writes it."""
        if not self.is_mma:
            return
        stmt = sch.get_sref(block).block
        ndim = (stmt.reads if kind == "read" else stmt.writes)[0].buffer.ndim
        layout = _in_registers(ndim, writer)
        sch.transform_layout(block, (kind, 0), layout, assume_injective_transform=True)


def _in_registers(ndim: int, writer: str) -> IndexMap:
    """Tiles, and in them the thread and its register, as the description of `writer` says."""
    intrin = TensorIntrin.get(writer)
    assert intrin is not None
    loops, realize = description_nest(intrin.desc)
    store, block = realize.block.body, realize.block
    assert isinstance(store, ir.BufferStore)
    (row, rows), (column, columns) = (
        (iter_var.var, loop.extent) for iter_var, loop in zip(block.iter_vars, loops, strict=True)
    )

    def spread(*indices: Any) -> list[Any]:
        *outer, i, j = indices
        inside = {row: i % rows, column: j % columns}
        places = [ir.substitute(place, inside) for place in store.indices]
        return [*outer, i // rows, j // columns, *places]

    return IndexMap.from_func(spread, ndim, index_dtype="int32")
