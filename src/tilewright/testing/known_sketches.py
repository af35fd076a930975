"""Decisions that sketches of the 13 workloads are compared with each other by, across projects.

They are written as `T[2,4]` for the factors of a tile, `C(1)` for a category, `L(-1)` for a compute
location. A line of `common` decisions begins every sketch of a workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tilewright.testing.space_generation import Decision

_KINDS = {"T": "SamplePerfectTile", "C": "SampleCategorical", "L": "SampleComputeLocation"}
_STEP = re.compile(r"([TCL])[\[(]([-\d,]+)[\])]")


def parse_decisions(text: str) -> list[Decision]:
    """Decisions from their short form."""
    return [(_KINDS[kind], _value(kind, numbers)) for kind, numbers in _STEP.findall(text)]


def _value(kind: str, numbers: str) -> list[int] | int:
    values = [int(number) for number in numbers.split(",")]
    return values if kind == "T" else values[0]


def _sketches(common: str, *own: str) -> tuple[Sequence[Decision], ...]:
    return tuple(parse_decisions(f"{common} {decisions}") for decisions in own)


# On the target aws/cpu/c5.9xlarge with the rules of kind "llvm", for index 0 of each workload.
CPU: Mapping[str, tuple[Sequence[Decision], ...]] = MappingProxyType(
    {
        "C1D": _sketches(
            "T[1,1,1,1] T[1,1,64,2] T[2,8,8,1] T[1,3] T[64,1]",
            "C(3) L(-1)",
            "C(3) L(5)",
            "C(1) L(-2)",
        ),
        "C2D": _sketches(
            "T[1,1,1,1] T[7,1,2,8] T[4,28,1,1] T[2,8,1,4] T[7,1] T[7,1] T[1,3]",
            "C(1) L(6)",
            "C(3) L(-1)",
            "C(0) L(1)",
        ),
        "C3D": _sketches(
            "T[1,1,1,1] T[2,4,1,1] T[4,4,1,7] T[1,14,1,8] T[2,1,32,1] T[1,7] T[7,1] T[7,1] T[3,1]",
            "C(3) L(4)",
            "C(2) L(8)",
            "C(1) L(8)",
        ),
        "CAP": _sketches(
            "T[1,1,1,1] T[2,4,1,1] T[1,4,2,1] T[1,1,1,4] T[1,4,1,1] T[1,2,1,16] "
            "T[1,3] T[3,1] T[4,1] T[1,32]",
            "C(0) L(7)",
            "C(0) L(11)",
            "C(1) L(-1)",
        ),
        "DEP": _sketches(
            "T[1,1,1,1] T[1,4,2,14] T[1,4,7,4] T[1,8,2,2] T[1,3] T[1,3]",
            "C(2) L(-1)",
            "C(1) L(-1)",
            "C(0) L(5)",
        ),
        "DIL": _sketches(
            "T[1,1,1,1] T[109,1,1,1] T[1,1,109,1] T[4,2,8,1] T[7,1] T[1,7] T[1,3]",
            "C(2) L(7)",
            "C(0) L(8)",
            "C(0) L(1)",
        ),
        "GMM": _sketches("T[1,1,1,1] T[4,1,16,2] T[2,8,1,8] T[128,1] C(1)", "", "", ""),
        "GRP": _sketches(
            "T[1,1,1,1] T[7,4,1,1] T[1,1,4,7] T[2,1,4,16] T[1,3] T[3,1] T[8,2]",
            "C(1) L(3)",
            "C(3) L(-1)",
            "C(1) L(9)",
        ),
        "T2D": _sketches(
            "T[1,1,1,1] T[1,4,1,2] T[2,1,1,4] T[8,4,1,8] T[2,2] T[2,2] T[64,8]",
            "C(2) L(-1)",
            "C(2) L(3)",
            "C(3) L(-2)",
        ),
        "NRM": _sketches(
            "", "T[32768,2] C(0) L(-1) L(-1)", "T[32768,2] C(1) L(-1) L(-1)", "C(0) L(-1)"
        ),
        "SFM": _sketches(
            "",
            "T[16,16] T[4,64] C(0) L(1) L(-1) L(-2) L(-1) L(-1)",
            "T[16,16] T[4,64] C(1) L(-1) L(-1) L(-1) L(1) L(0)",
            "T[16,16] C(3) L(-1) L(-1) L(-2) L(-1)",
            "T[16,16] T[256,1] C(3) L(1) L(2) L(1) L(1) L(1)",
            "T[16,16] T[256,1] C(0) L(-1) L(-1) L(-1) L(-1) L(0)",
            "T[16,16] C(3) L(0) L(1) L(0) L(0)",
            "T[64,4] C(2) L(-1) L(-2) L(-1) L(0)",
            "T[64,4] C(2) L(1) L(-2) L(-1) L(-1)",
            "C(3) L(-1) L(-1) L(0)",
        ),
        "CBR": _sketches(
            "T[1,1,1,1] T[2,2,1,28] T[7,2,4,2] T[1,32,1,2] T[7,1] T[7,1] T[1,3]",
            "C(2) L(-2)",
            "C(3) L(1)",
            "C(2) L(1)",
        ),
        "TBG": _sketches(
            "T[1,1,1,1] T[1,6,2,1] T[1,2,2,32] T[2,8,4,2] T[1,64]",
            "C(2) L(6) L(6)",
            "C(2) L(13) L(-1)",
            "C(3) L(7) L(-2)",
        ),
    }
)
