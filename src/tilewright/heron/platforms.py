"""Platforms: which rules write templates for them, in which order, and who measures."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import TuneError
from tilewright.heron.operators import OperatorCase
from tilewright.heron.rules.always_inline import AlwaysInline
from tilewright.heron.rules.base import HeronRule, heron_rules
from tilewright.heron.rules.cpu_loops import UnrollRoot
from tilewright.support.plugins import Family


@dataclass(frozen=True)
class Platform:
    """Rules that change which stages there are, then rules that schedule each of them."""

    name: str
    prepare: tuple[HeronRule, ...]
    schedule: tuple[HeronRule, ...]
    in_dtype: str
    out_dtype: str
    weight_block: int = 0  # sides of the square blocks in which it takes weights
    as_matrices: bool = False  # it computes products of matrices and nothing else
    # Types of operands and results that its instructions know; none: it also computes without them.
    dtypes: tuple[tuple[str, str], ...] = ()

    def case(
        self,
        operator: str,
        shape: tuple[int, ...],
        in_dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> OperatorCase:
        """An operator in the layouts that it wants; without data types in those that it is for."""
        dtypes = in_dtype or self.in_dtype, out_dtype or self.out_dtype
        if self.dtypes and dtypes not in self.dtypes:
            known = " or ".join(f"{given!r} and {made!r}" for given, made in self.dtypes)
            raise TuneError(
                f"platform {self.name!r} needs the in_dtype and out_dtype {known}, "
                f"got {dtypes[0]!r} and {dtypes[1]!r}"
            )
        return OperatorCase(operator, shape, *dtypes, self.weight_block, self.as_matrices)


heron_platforms: Family[Platform] = Family("platform of Heron", "tilewright.heron_platform")


def _rules(*names: str) -> tuple[HeronRule, ...]:
    return tuple(heron_rules.create(name) for name in names)


@heron_platforms.register("dlboost")
def dlboost() -> Platform:
    """CPUs with int8 dot products (VNNI)."""
    return Platform(
        "dlboost",
        _rules("Always-Inline", "Add-Cache-Stage"),
        _rules(
            "Merge-Consumer",
            "Unroll-Pragma",
            "Parallel",
            "Tile-For-Cache",
            "Tensorize",
            "Multi-level-Tiling",
            "Start-Sums",
            "Vectorize",
        ),
        "uint8",
        "int32",
    )


@heron_platforms.register("tensorcore")
def tensorcore() -> Platform:
    """NVIDIA GPUs with tensor cores."""
    return Platform(
        "tensorcore",
        (*_rules("Add Multi-level SPM"), AlwaysInline(is_strict=False)),
        (
            *_rules("Default-Schedule"),
            UnrollRoot(is_outermost=False),
            *_rules(
                "Default-Shared-Load",
                "Storage-Align",
                "Tile-Block",
                "Tile-Thread",
                "Tile-Warp",
                "Tensorize-TensorCore",
                "Multi-level-Tiling",
                "Place-Stages",
                "Emit-TensorCore",
                "Vectorize-Output",
                "Shared-Limit",
            ),
        ),
        "float16",
        "float16",
        as_matrices=True,
        dtypes=(("float16", "float16"), ("float16", "float32")),
    )


@heron_platforms.register("vta")
def vta() -> Platform:
    """The accelerator VTA, which is simulated."""
    return Platform(
        "vta",
        (*_rules("Add Multi-Scope SPM"), AlwaysInline(is_strict=False)),
        _rules("Bind-Cthread", "Tile-Store", "Tensorize-VTA", "Load-Scratchpad"),
        "int8",
        "int32",
        weight_block=16,
        dtypes=(("int8", "int32"),),
    )
