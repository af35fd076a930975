"""Loops, footprints, shares and costs from the algebra equal those of replayed candidates."""

from __future__ import annotations

import pytest

from tilewright.algebra.legality import verdicts_of
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.population import every_vector
from tilewright.cost_model.prior import Machine
from tilewright.space.postprocs import verify_tile_kernels
from tilewright.target import Target
from tilewright.testing.algebra_exactness import (
    EXACTNESS_WORKLOADS,
    compared_sketches,
    exactness_of,
    sketch_exactness,
)
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
    ["C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "T2D", "TBG"],
)
def test_all_of_the_default_space(name: str) -> None:
    assert check(name, 0, DEFAULT, 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["C1D", "C2D", "C3D", "CAP", "CBR", "DEP", "DIL", "GMM", "GRP", "NRM", "SFM", "T2D", "TBG"],
)
def test_all_of_the_llvm_space(name: str) -> None:
    assert check(name, 0, TVM, 60)


def test_shapes_of_buffers_that_are_decided() -> None:
    """Partial results of a reduction have as many columns as a decision says: cases by numbers."""
    check("NRM", 0, TVM, 8, sketch=1)


@pytest.mark.parametrize("name", ["C2D_WIN_NHWC", "C2D_WIN_NCHW"])
def test_parts_of_loops_in_winograd(name: str) -> None:
    """Tiles are numbered by one loop: indices are quotients and remainders of parts of it."""
    func = create_te_workload(name, 0)
    (found,) = exactness_of(func, TARGET, TVM, 24)
    assert found.legal == 24
    assert found.is_exact, found.examples
    # Of tiles that neither divide a row nor are whole rows.
    assert set(found.reasons) <= {"block 'input_tile' is moved into a part of a loop"}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("GMM", "nvidia/geforce-rtx-3080"),
        # Sums of parts of a number: blocks of threads with nothing to do, held back by predicates.
        ("NRM", "nvidia/geforce-rtx-3080"),
        # Tiles that do not divide the result, of which one loop has all numbers.
        ("GMM_f16", "nvidia/nvidia-h200"),
        # Groups of tiles that do not divide them either.
        ("DIL", "nvidia/nvidia-h200"),
    ],
)
def test_tile_kernels(name: str, target: str) -> None:
    """What verifiers of whole programs say is asked of the programs: decisions are cases."""
    func = EXACTNESS_WORKLOADS[name]()
    found = list(exactness_of(func, Target(target), DEFAULT, 40))
    for each in found:
        assert each.is_covered
        assert each.has_all
        assert each.is_exact, each.examples


def test_tiles_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_tile_kernels, "SHARED_BYTES", 100_000)
    gpu = Target("nvidia/nvidia-h200")
    sketches = compared_sketches(EXACTNESS_WORKLOADS["GMM_f16"](), gpu, DEFAULT)
    found = [sketch_exactness(sketch, gpu, 40) for sketch in sketches]
    assert all(each.is_exact for each in found), found
    assert any(0 < each.legal < each.vectors for each in found)
    refused = [
        reason
        for model in (sketch.model() for sketch in sketches)
        if (every := every_vector(model.decisions, 40)) is not None
        for reason in verdicts_of(model, every).reasons.values()
    ]
    assert set(refused) == {"tiles that instructions and shared memory allow"}


def test_a_sketch_that_is_not_covered_says_why() -> None:
    gpu = Target("nvidia/geforce-rtx-3080")
    mod, sketches, postprocs = sketches_of(create_te_workload("DEP", 0), gpu, DEFAULT)
    with pytest.raises(NotInterpreted) as error:
        ReplayedSketch(mod, sketches[0], postprocs, [], []).model()
    condition = "1 <= ax0_ax1_ax2_ax3_0_fused_0 // 14 + ax4"
    assert str(error.value) == f"block 'placeholder_local' runs only where `{condition}`"
