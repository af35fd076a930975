"""Loops, footprints, shares and costs from the algebra equal those of replayed candidates."""

from __future__ import annotations

import pytest

from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.cost_model.prior import Machine
from tilewright.target import Target
from tilewright.testing.space_algebra import (
    ReplayedSketch,
    differences,
    prior_differences,
    sketches_of,
)
from tilewright.testing.te_workload import create_te_workload

TARGET = Target("llvm -mcpu=cascadelake -num-cores 4")
DEFAULT, TVM = "tilewright", "post-order-apply"
MACHINE = Machine.of(TARGET)


def check(name: str, config: int, space: str, count: int, sketch: int | None = None) -> int:
    """Compare all sketches of a workload; how many there are."""
    mod, sketches, postprocs = sketches_of(create_te_workload(name, config), TARGET, space)
    chosen = sketches if sketch is None else [sketches[sketch]]
    for each in chosen:
        replayed = ReplayedSketch.draw(mod, each, postprocs, count)
        assert replayed.functions, "no candidate was accepted"
        model = replayed.model()
        assert differences(replayed, model)[:3] == []
        assert prior_differences(replayed, model, MACHINE)[:3] == []
    return len(chosen)


@pytest.mark.parametrize("name", ["GMM", "SFM", "DEP"])
def test_default_space(name: str) -> None:
    check(name, 0, DEFAULT, 6, sketch=0)


def test_llvm_space() -> None:
    check("GMM", 0, TVM, 10, sketch=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "TBG"],
)
def test_all_of_the_default_space(name: str) -> None:
    assert check(name, 0, DEFAULT, 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "TBG"],
)
def test_all_of_the_llvm_space(name: str) -> None:
    assert check(name, 0, TVM, 60)


def test_shapes_of_buffers_that_are_decided() -> None:
    """Partial results of a reduction have as many columns as a decision says: cases by numbers."""
    check("NRM", 0, TVM, 8, sketch=1)


def test_a_sketch_that_is_not_covered_says_why() -> None:
    mod, sketches, postprocs = sketches_of(create_te_workload("T2D", 0), TARGET, DEFAULT)
    with pytest.raises(NotInterpreted) as error:
        ReplayedSketch(mod, sketches[0], postprocs, [], []).model()
    assert str(error.value) == ("block 'conv2d_transpose_nhwc' is moved into a part of a loop")
