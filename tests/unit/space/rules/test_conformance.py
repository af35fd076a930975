"""The rules of the default CPU lists do what every schedule rule must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.space import rules
from tilewright.space.base import ScheduleRule
from tilewright.target import Target
from tilewright.testing.conformance import schedule_rule

TARGET = Target("llvm -num-cores=4")
WRITE = {"req": "may", "levels": [1, 2], "scope": "global"}
INLINE: dict[str, Any] = {
    "into_producer": True,
    "into_consumer": True,
    "inline_const_tensor": True,
    "disallow_if_then_else": False,
    "require_injective": False,
    "require_ordered": False,
}

MAKERS: dict[str, Callable[[], ScheduleRule]] = {
    "ApplyCustomRule": rules.ApplyCustomRule,
    "InlineConstantScalars": rules.InlineConstantScalars,
    "AutoInline": lambda: rules.AutoInline(**INLINE),
    "MultiLevelTiling": lambda: rules.MultiLevelTiling(
        "SSRSRS", max_innermost_factor=64, reuse_write=WRITE
    ),
    "MultiLevelTilingWideVector": lambda: rules.MultiLevelTilingWideVector(
        "SRSRS", 128, max_innermost_factor=64
    ),
    "AddRFactor": lambda: rules.AddRFactor(16, 64),
    "RandomComputeLocation": rules.RandomComputeLocation,
    "ParallelizeVectorizeUnroll": lambda: rules.ParallelizeVectorizeUnroll(16, 64, [0, 16], True),
    "RegisterTiling": rules.RegisterTiling,
    "FuseRows": rules.FuseRows,
    "HeadAttention": rules.HeadAttention,
    "ReduceInVectors": rules.ReduceInVectors,
    "SpatialPass": rules.SpatialPass,
}


@pytest.mark.parametrize("check", schedule_rule.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_conformance(name: str, check: Callable[..., None]) -> None:
    check(MAKERS[name], TARGET)
