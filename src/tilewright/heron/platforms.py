"""Platforms: which rules write templates for them, in which order, and who measures."""

from __future__ import annotations

from dataclasses import dataclass

import tilewright.heron.rules
import tilewright.heron.wmma_tiles  # noqa: F401  (registers instructions)
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
        _rules("Always-Inline", "Add Multi-level SPM"),
        (
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
    )


@heron_platforms.register("vta")
def vta() -> Platform:
    """The accelerator VTA, which is simulated."""
    return Platform(
        "vta",
        _rules("Always-Inline", "Add Multi-Scope SPM"),
        _rules("Bind-Cthread", "Tile-Store", "Tensorize-VTA", "Load-Scratchpad"),
        "int8",
        "int32",
        weight_block=16,
    )
