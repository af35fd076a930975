"""Reductions over axes, and sums that run along one."""

from __future__ import annotations

from tilewright import topi
from tilewright.graph.operator import operator

_OF_TOPI = [
    "sum", "mean", "prod", "max", "min", "all", "any", "argmax", "argmin", "cumsum", "cumprod",
]  # fmt: skip

for _name in _OF_TOPI:
    operator(_name)(getattr(topi, _name))
