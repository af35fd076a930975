# mypy: disable-error-code="valid-type, no-untyped-def"
"""A schedule without a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import MemoryDatabase
from tilewright.driver import lower
from tilewright.errors import ScheduleError
from tilewright.ir import structural_equal
from tilewright.records import MeasureCandidate, normalize_mod
from tilewright.schedule import Trace
from tilewright.script import tir as T
from tilewright.search.replayer import Draft, Replayer, Sketch
from tilewright.space.gpu.plain_loops import plain_schedule
from tilewright.target import Target
from tilewright.testing.int8_workloads import create_int8_workload
from tilewright.testing.te_workload import create_te_workload
from tilewright.tune import default_schedule, fallback


def test_a_matmul_gets_a_kernel_that_is_right() -> None:
    func = create_te_workload("GMM", 0)
    sch = default_schedule(func, "llvm")
    assert sch.trace is not None
    assert sch.trace.has_steps()
    a, b = (np.random.default_rng(n).random((1, 128, 128), dtype=np.float32) for n in range(2))
    c = np.full((1, 128, 128), np.nan, np.float32)
    tw.build(sch.mod, "llvm")(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_the_same_program_gets_the_same_schedule() -> None:
    func = create_te_workload("SFM", 0)
    first, second = default_schedule(func), default_schedule(func)
    assert str(first.trace) == str(second.trace)
    assert structural_equal(first.mod, second.mod)


def test_long_traces_are_replayed_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[int] = []
    replay = Replayer.replay

    def counting(self: Replayer, trace: Trace, seed: int) -> Draft | None:
        replayed.append(len(trace.insts))
        return replay(self, trace, seed)

    monkeypatch.setattr(Replayer, "replay", counting)
    monkeypatch.setattr(Sketch, "drawn", lambda self, seed: None)  # none is known to come twice
    default_schedule(create_te_workload("GMM", 0))
    assert len(replayed) == fallback.DRAFTS
    monkeypatch.setattr(fallback, "STEPS", 10 * replayed[0])
    replayed.clear()
    default_schedule(create_te_workload("GMM", 0))
    assert len(replayed) == 10
    monkeypatch.setattr(fallback, "STEPS", 0)
    replayed.clear()
    default_schedule(create_te_workload("GMM", 0))
    assert len(replayed) == 2  # each sketch once


def test_no_draft_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    replay = Replayer.replay

    def remembering(self: Replayer, trace: Trace, seed: int) -> Draft | None:
        draft = replay(self, trace, seed)
        if draft is not None:
            made.append(str(draft.trace))
        return draft

    monkeypatch.setattr(Replayer, "replay", remembering)
    for target, name in (("llvm -mcpu=skylake-avx512", "GMM"), ("nvidia/nvidia-h200", "SFM")):
        default_schedule(create_te_workload(name, 0), target)
        assert 1 < len(made) == len({*made})
        made.clear()


@T.prim_func
def plain(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        B[i] = A[i] + 1.0


def test_products_of_bytes_are_drafted_around_instructions_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sketches without an instruction are many times slower: none of them is replayed."""
    replayed: list[bool] = []
    replay = Replayer.replay

    def counting(self: Replayer, trace: Trace, seed: int) -> Draft | None:
        replayed.append(any("tensorize" in line for line in trace.as_python()))
        return replay(self, trace, seed)

    monkeypatch.setattr(Replayer, "replay", counting)
    program = create_int8_workload("int8_dense", M=32, N=64, K=64)
    sch = default_schedule(program, "llvm -mcpu=cascadelake -num-cores=2")
    assert replayed
    assert len(replayed) <= fallback.DRAFTS_AROUND_INSTRUCTIONS
    assert sch.trace is not None
    assert any("dot_16x4_vnni" in line for line in sch.trace.as_python())


def test_a_program_that_no_rule_understands_stays_as_it_is() -> None:
    sch = default_schedule(plain)
    assert structural_equal(sch.mod, normalize_mod(plain))


def test_on_a_gpu_it_runs_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no draft of a sketch is accepted."""
    monkeypatch.setattr(Replayer, "replay", lambda self, trace, seed: None)
    gpu, func = Target("nvidia/nvidia-h200"), create_te_workload("T2D", 0)
    sch = default_schedule(func, gpu)
    assert len(lower(sch.mod, gpu).functions) == 3  # two kernels, and what launches them
    assert structural_equal(sch.mod, plain_schedule(normalize_mod(func), gpu).mod)


@pytest.mark.parametrize(("advantage", "is_plain"), [(0.9, False), (1.1, True)])
def test_drafts_on_a_gpu_that_are_worse_than_plain_loops(
    advantage: float, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(self: AnalyticPrior, context: Any, candidates: list[MeasureCandidate]) -> Any:
        return np.array([0.0] * (len(candidates) - 1) + [-advantage])

    monkeypatch.setattr(AnalyticPrior, "score", score)
    gpu, func = Target("nvidia/nvidia-h200"), create_te_workload("GMM", 0)
    expected = plain_schedule(normalize_mod(func), gpu).mod
    assert structural_equal(default_schedule(func, gpu).mod, expected) == is_plain


def test_rules_that_fail_are_no_harm(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*args: object) -> None:
        raise ScheduleError("no rule works")

    monkeypatch.setattr("tilewright.tune.fallback._drafts", failing)
    func = create_te_workload("GMM", 0)
    assert structural_equal(default_schedule(func).mod, normalize_mod(func))
    assert "no schedule was found, the program is used as it is: no rule works" in caplog.text


def test_a_database_uses_it_for_programs_it_does_not_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    func = create_te_workload("GMM", 0)
    with MemoryDatabase():
        module = tw.build(func, "llvm")
    a, b = (np.random.default_rng(n).random((1, 128, 128), dtype=np.float32) for n in range(2))
    c = np.full((1, 128, 128), np.nan, np.float32)
    module(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    assert "is not in the database, and nothing like it; it gets a schedule without" in caplog.text
