# mypy: disable-error-code="valid-type, no-untyped-def"
"""The schedule fuzzer: 300 cases here, 20,000 with `make fuzz`; and that it would notice a bug."""

from __future__ import annotations

from collections import Counter

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import Schedule
from tilewright.schedule.primitives import reorder
from tilewright.script import tir as T
from tilewright.testing import oracle, schedule_fuzzer
from tilewright.testing.schedule_checks import assert_same_arrays, random_arguments
from tilewright.testing.schedule_fuzz_intrinsics import INTRINSICS, FuzzIntrinsic
from tilewright.testing.schedule_fuzz_steps import STEPS, available_steps
from tilewright.testing.schedule_fuzz_workloads import random_program
from tilewright.testing.schedule_fuzzer import Failure, check_result, main, run_case, shrink

CHUNK = 25


@pytest.mark.parametrize("start", range(0, 300, CHUNK))
def test_random_schedules(start: int) -> None:
    for seed in range(start, start + CHUNK):
        report = run_case(seed)
        assert report is None, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 30_000, 500))
def test_many_random_schedules(start: int) -> None:
    for seed in range(start, start + 500):
        report = run_case(seed)
        assert report is None, str(report)


def test_programs_repeat_and_differ() -> None:
    texts = [str(random_program(seed)) for seed in range(20)]
    assert texts == [str(random_program(seed)) for seed in range(20)]
    assert len(set(texts)) > 15


def test_most_primitives_get_their_turn() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        schedule_fuzzer.apply_random_steps(seed, counts)
    assert len(counts) >= len(available_steps()) // 2
    assert set(counts) <= set(STEPS)


@T.prim_func
def running_sum(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] * 2 + A[vi, vk]


def test_wrong_results_are_noticed_and_cut_down() -> None:
    """This sum depends on its order, which `reorder` takes on trust."""
    sch = Schedule(running_sum, seed=1)
    i, k = sch.get_loops("B")
    sch.split(i, [2, 2])
    sch.annotate(sch.get_block("B"), "note", 1)
    k = sch.get_loops("B")[-1]
    outer, _ = sch.split(k, [2, 3])
    sch.reorder(sch.get_loops("B")[-1], outer)
    failure = check_result(running_sum, sch)
    assert failure is not None
    assert (failure.stage, failure.exception) == ("result", "AssertionError")
    assert sch.trace is not None
    smallest = shrink(running_sum, sch.trace, failure)
    kinds = [inst.primitive.kind for inst in smallest.insts]
    assert kinds == ["GetBlock", "GetLoops", "Split", "GetBlock", "GetLoops", "Reorder"]


def test_internal_errors_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("what a bug looks like")

    monkeypatch.setattr(reorder.Reorder, "run", broken)
    reports = [report for seed in range(12) if (report := run_case(seed)) is not None]
    assert reports
    for report in reports:
        assert report.failure == Failure("primitive", "KeyError", "")
        assert [inst.primitive.kind for inst in report.trace.insts][-1] == "Reorder"
        assert len(report.trace.insts) <= 6
        assert "sch.reorder(" in str(report)


def test_refusals_are_none() -> None:
    sch = Schedule(running_sum)
    with pytest.raises(ScheduleError):
        sch.parallel(sch.get_loops("B")[1])
    assert check_result(running_sum, sch) is None


@T.prim_func
def doubled(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2


def test_threads_run_as_loops() -> None:
    sch = Schedule(doubled)
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    assert check_result(doubled, sch) is None


def test_blocks_of_threads_run_in_any_order() -> None:
    """What one of them leaves for the next is a wrong result."""

    @T.prim_func
    def main(A: T.Buffer((6,), "int32"), B: T.Buffer((1,), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in T.thread_binding(6, thread="blockIdx.x"):
            with T.block("B"):
                vi = T.axis.opaque(6, i)
                B[0] = A[vi]

    failure = check_result(main, Schedule(main))
    assert failure is not None
    assert failure.stage == "result"


@pytest.mark.parametrize("intrinsic", INTRINSICS, ids=lambda intrinsic: intrinsic.name)
def test_tensor_instructions_do_what_they_say(intrinsic: FuzzIntrinsic) -> None:
    made = TensorIntrin.get(intrinsic.name)
    assert made is not None
    arguments = random_arguments(made.desc)
    again = [value.copy() for value in arguments]
    oracle.run(made.desc, *arguments)
    oracle.run(made.impl, *again)
    assert_same_arrays(made.desc, arguments, again)


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cases", "3", "--start", "7"]) == 0
    assert capsys.readouterr().out.startswith("3 cases, 0 failures")
