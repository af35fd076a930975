"""The helpers that tests of rules rely on must notice what is wrong."""

from __future__ import annotations

import pytest

from tilewright.ir import as_module
from tilewright.space.rules import AutoInline, MultiLevelTiling
from tilewright.target import Target
from tilewright.testing.known_sketches import parse_decisions
from tilewright.testing.space_generation import (
    check_sketches,
    decisions_of,
    generate_design_space,
    get_rules,
    print_sketches,
    with_decisions,
)
from tilewright.testing.te_workload import create_te_workload

LLVM = Target("llvm -num-cores=4")
MODULE = as_module(create_te_workload("GMM", 0))
TILES = parse_decisions("T[1,1,1,1] T[4,1,16,2] T[2,8,1,8] T[128,1]")


def test_rules_by_type() -> None:
    assert [type(rule) for rule in get_rules("llvm", MultiLevelTiling)] == [MultiLevelTiling]
    both = get_rules("llvm", (AutoInline, MultiLevelTiling))
    assert [type(rule) for rule in both] == [AutoInline, MultiLevelTiling]


def test_short_form_of_decisions() -> None:
    assert parse_decisions("T[2,-1] C(3) L(-2)") == [
        ("SamplePerfectTile", [2, -1]),
        ("SampleCategorical", 3),
        ("SampleComputeLocation", -2),
    ]


def test_decisions_are_replaced() -> None:
    sketch, *_ = generate_design_space("llvm", MODULE, LLVM, MultiLevelTiling)
    made = with_decisions(MODULE, sketch, TILES)
    assert made is not None
    assert decisions_of(made) == TILES
    assert with_decisions(MODULE, sketch, TILES[:-1]) is None


def test_matching_is_by_program() -> None:
    sketches = generate_design_space("llvm", MODULE, LLVM, MultiLevelTiling)
    replays = [with_decisions(MODULE, sketch, TILES) for sketch in sketches]
    expected = [made.mod for made in replays if made is not None]
    check_sketches(MODULE, sketches, expected[::-1], [TILES] * 3)  # in any order
    with pytest.raises(AssertionError, match="2 sketches were expected, 3 were made"):
        check_sketches(MODULE, sketches, expected[:2], [TILES] * 2)
    with pytest.raises(AssertionError, match="no sketch is the expected module 2"):
        check_sketches(MODULE, sketches, [*expected[:2], MODULE], [TILES] * 3)
    with pytest.raises(AssertionError, match="no sketch is the expected module 1"):
        check_sketches(MODULE, sketches, [expected[0], expected[0], expected[1]], [TILES] * 3)


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    sketches = generate_design_space("llvm", MODULE, LLVM, MultiLevelTiling)
    print_sketches(sketches[:1])
    shown = capsys.readouterr().out
    assert "# --- sketch 0" in shown
    assert "('SamplePerfectTile', [8, 16])," in shown
