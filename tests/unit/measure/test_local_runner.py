"""`LocalRunner`: times, checks, typed failures, hooks."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import TuneError
from tilewright.ir import PrimFunc, as_module
from tilewright.measure import (
    AdaptiveProtocol,
    EvaluatorConfig,
    LocalBuilder,
    LocalRunner,
    Runner,
)
from tilewright.records import (
    BuilderInput,
    FailureKind,
    RunnerInput,
    RunnerResult,
    TensorInfo,
    args_info_of,
)
from tilewright.target import Target
from tilewright.testing import faults
from tilewright.testing.conformance import runner as conformance
from tilewright.testing.handwritten import matmul

HOOKS = "tilewright.testing.faulty_hooks"
MakeInput = Callable[..., RunnerInput]
WRONG = "LocalRunner: the result differs from that of the untransformed function: "


def run_one(runner: Runner, given: RunnerInput) -> RunnerResult:
    (future,) = runner.run([given])
    return future.result()


@pytest.mark.parametrize("check", conformance.CHECKS)
def test_conformance(check: Callable[..., None], runner: LocalRunner, input_of: MakeInput) -> None:
    good = [input_of(faults.double), input_of(faults.double_in_parallel)]
    bad = RunnerInput("/nowhere/candidate.kernel", "llvm", good[0].args_info)
    check(lambda: runner, good, bad)


def test_correct_candidate(runner: LocalRunner, input_of: MakeInput) -> None:
    result = run_one(runner, input_of(faults.double_in_parallel, faults.double))
    assert result.failure is None, result.error_msg
    assert result.checked
    assert not result.stopped_early
    assert result.protocol == "median of 3 to 7 rows of 1 ms"
    assert result.run_secs is not None
    assert len(result.run_secs) == 1
    assert set(result.step_secs) == {"load", "expect", "allocate", "first_look", "check", "run"}


def test_artefacts_travel_as_values() -> None:
    """Builder and runner share no files: the paths are names."""
    builder = LocalBuilder(max_workers=1)
    mods = [
        as_module(faults.double_in_parallel),
        as_module(faults.triple),
        as_module(faults.double),
    ]
    built = builder.build([BuilderInput(mod, Target("llvm")) for mod in mods])
    builder.close()
    assert not any(Path(str(result.artifact_path)).exists() for result in built)
    assert len({result.artifact.digest for result in built if result.artifact}) == len(mods)
    *candidates, plain = built
    runner = LocalRunner(timeout_sec=60, seed=1)
    futures = runner.run(
        [
            RunnerInput(
                str(each.artifact_path),
                "llvm",
                args_info_of(mods[0]),
                reference_path=plain.artifact_path,
                artifact=each.artifact,
                reference=plain.artifact,
            )
            for each in candidates
        ]
    )
    runner.close()
    right, wrong = (future.result() for future in futures)
    assert right.checked, right.error_msg
    assert wrong.failure is FailureKind.WRONG_RESULT


def test_without_reference_nothing_is_checked(runner: LocalRunner, input_of: MakeInput) -> None:
    result = run_one(runner, input_of(faults.triple))
    assert result.failure is None
    assert not result.checked


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (faults.triple, "argument 1: 64 of 64 elements are wrong, the first at [0]: expected "),
        (faults.forgets_the_last, "argument 1: 1 of 64 elements are wrong, the first at [63]: "),
        (
            faults.writes_behind_its_output,
            "it wrote out of bounds of argument 1, 0 bytes behind its end",
        ),
        (faults.changes_its_input, "it changed argument 0, which is an input"),
    ],
)
def test_wrong_results(
    kernel: PrimFunc, message: str, runner: LocalRunner, input_of: MakeInput
) -> None:
    result = run_one(runner, input_of(kernel, faults.double))
    assert result.failure is FailureKind.WRONG_RESULT
    assert str(result.error_msg).startswith(WRONG + message)
    assert result.run_secs is None


@pytest.mark.parametrize(
    ("kernel", "failure", "message"),
    [
        (faults.segfaults, "crash", "LocalRunner: the worker process died of SIGSEGV"),
        (faults.exits, "crash", "LocalRunner: the worker process ended with status 3"),
        (
            faults.takes_all_memory,
            "out_of_memory",
            "LocalRunner: the worker process took more than its 600 MiB of memory",
        ),
    ],
)
def test_kernels_that_take_the_worker_down(
    kernel: PrimFunc, failure: str, message: str, runner: LocalRunner, input_of: MakeInput
) -> None:
    inputs = [input_of(kernel, faults.double), input_of(faults.double, faults.double)]
    bad, good = (future.result() for future in runner.run(inputs))
    assert bad.failure is FailureKind(failure)
    assert bad.error_msg == message
    assert good.failure is None
    assert good.checked


class Impatient(AdaptiveProtocol):
    def look_limit(self, best: float) -> float:
        return 0.4


def test_endless_kernel(input_of: MakeInput) -> None:
    runner = LocalRunner(timeout_sec=0.3, adaptive=Impatient())
    result = run_one(runner, input_of(faults.loops_for_ever))
    assert result.failure is FailureKind.TIMEOUT
    assert result.error_msg == "LocalRunner: Timeout, killed after 0.3 seconds"
    runner.timeout_sec = 60
    result = run_one(runner, input_of(faults.loops_for_ever, best_secs=1e-6))
    runner.close()
    assert result.failure is FailureKind.TIMEOUT
    assert result.error_msg == "LocalRunner: Timeout, killed after 0.4 seconds"


def test_wrong_arguments_are_a_run_error(runner: LocalRunner, input_of: MakeInput) -> None:
    given = input_of(faults.double)
    infos = (TensorInfo("float32", (63,)), TensorInfo("float32", (64,)))
    result = run_one(runner, RunnerInput(given.artifact_path, "llvm", infos))
    assert result.failure is FailureKind.RUN_ERROR
    assert str(result.error_msg).startswith("LocalRunner: An exception occurred\nTraceback")
    assert "shape is [63], expected 64 on axis 0" in str(result.error_msg)


def test_clearly_worse_stops_early(runner: LocalRunner, input_of: MakeInput) -> None:
    """Not even checked: it cannot become the best."""
    result = run_one(runner, input_of(faults.triple, faults.double, best_secs=1e-12))
    assert result.failure is None
    assert result.stopped_early
    assert not result.checked
    assert result.protocol == "first look"


def test_who_falls_behind_is_checked_and_timed_in_fewer_rows(input_of: MakeInput) -> None:
    patient = AdaptiveProtocol(give_up_factor=1e12, give_up_at_once_factor=1e12)
    runner = LocalRunner(adaptive=patient)
    result = run_one(runner, input_of(faults.double, faults.double, best_secs=1e-12))
    runner.close()
    assert result.stopped_early
    assert result.checked
    assert result.protocol == "first rows"


def test_the_best_of_a_workload_is_remembered(runner: LocalRunner, input_of: MakeInput) -> None:
    given = input_of(faults.triple, faults.triple)
    assert not run_one(runner, given).stopped_early
    assert given.reference_path is not None
    runner.notify_best(given.reference_path, 1e-12)
    assert run_one(runner, given).stopped_early


def test_impossible_speed(runner: LocalRunner, input_of: MakeInput) -> None:
    result = run_one(runner, input_of(faults.double, min_secs=1.0))
    assert result.failure is FailureKind.IMPOSSIBLE_SPEED
    assert str(result.error_msg).endswith(" s is faster than this machine can be (1 s)")


def test_program_that_cannot_be_compared_with(
    runner: LocalRunner, input_of: MakeInput, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tilewright.measure"):
        inputs = [input_of(faults.double, faults.exits)] * 2
        results = [future.result() for future in runner.run(inputs)]
    assert [result.failure for result in results] == [None, None]
    assert not any(result.checked for result in results)
    assert caplog.messages == [
        "candidates cannot be checked: the untransformed program failed with crash: the worker "
        "process ended with status 3"
    ]


def test_measured_again_in_turns(runner: LocalRunner, input_of: MakeInput) -> None:
    kernels = [faults.double, faults.triple, faults.double_in_parallel]
    results = runner.measure_again([input_of(kernel, faults.double) for kernel in kernels])
    assert [result.failure for result in results] == [None, FailureKind.WRONG_RESULT, None]
    assert [result.checked for result in results] == [True, False, True]
    assert results[0].protocol == "median of 7 rows of 1 ms, in turns"
    assert [len(result.run_secs or ()) for result in results] == [7, 0, 7]


def test_measured_again_with_one_that_crashes(runner: LocalRunner, input_of: MakeInput) -> None:
    results = runner.measure_again([input_of(faults.double), input_of(faults.segfaults)])
    assert [result.failure for result in results] == [None, FailureKind.CRASH]


# --- protocols ---


def test_protocol_of_tvm(input_of: MakeInput) -> None:
    config = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0, enable_cpu_cache_flush=True)
    runner = LocalRunner(evaluator_config=config, alloc_repeat=3)
    result = run_one(runner, input_of(faults.double, faults.double))
    runner.close()
    assert result.run_secs is not None
    assert len(result.run_secs) == 6
    assert result.protocol == "number=1, repeat=2, min_repeat_ms=0, cache flush"


def test_defaults_of_tvm() -> None:
    assert EvaluatorConfig() == EvaluatorConfig(3, 1, 100, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": 0}, "EvaluatorConfig: number must be a whole number from 1, got 0"),
        ({"repeat": 1.5}, "EvaluatorConfig: repeat must be a whole number from 1, got 1.5"),
        ({"min_repeat_ms": -1}, "EvaluatorConfig: min_repeat_ms must be 0 or more, got -1"),
    ],
)
def test_bad_evaluator_config(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TuneError) as caught:
        EvaluatorConfig(**options)
    assert str(caught.value) == message


def test_options_are_checked() -> None:
    with pytest.raises(TuneError, match="LocalRunner: timeout_sec must be positive, got 0"):
        LocalRunner(timeout_sec=0)
    with pytest.raises(TuneError, match="LocalRunner: alloc_repeat must be positive, got 0"):
        LocalRunner(alloc_repeat=0)


# --- hooks ---


def test_hooks_in_the_worker(input_of: MakeInput) -> None:
    runner = LocalRunner(f_run_evaluator=f"{HOOKS}:evaluator_of_ones", alloc_repeat=2)
    result = run_one(runner, input_of(faults.double, faults.double))
    wrong = run_one(runner, input_of(faults.triple, faults.double))
    runner.close()
    assert result.run_secs == (1.0, 1.0)
    assert result.checked
    assert wrong.failure is FailureKind.WRONG_RESULT


def test_failing_hooks(input_of: MakeInput) -> None:
    runner = LocalRunner(timeout_sec=0.3, f_run_evaluator=f"{HOOKS}:evaluator_that_hangs")
    late = run_one(runner, input_of(faults.double))
    runner.close()
    assert late.failure is FailureKind.TIMEOUT
    assert late.error_msg == "LocalRunner: Timeout, killed after 0.3 seconds"

    def broken(module: Any, device: Any, config: Any, repeated_args: Any) -> list[float]:
        raise ValueError("no luck")

    failed = run_one(LocalRunner(f_run_evaluator=broken), input_of(faults.double))
    assert failed.failure is FailureKind.RUN_ERROR
    assert str(failed.error_msg).startswith("LocalRunner: An exception occurred\nTraceback")
    assert "ValueError: no luck" in str(failed.error_msg)


def test_hooks_that_cannot_be_imported_run_here(input_of: MakeInput) -> None:
    calls: list[Any] = []

    def allocate(device: Any, args_info: Any, alloc_repeat: int) -> list[list[Any]]:
        calls.append(("allocate", str(device), args_info, alloc_repeat))
        return [[np.full(shape, 3, dtype) for _, dtype, shape in args_info]] * alloc_repeat

    def evaluate(module: Any, device: Any, config: Any, repeated_args: Any) -> list[float]:
        for args in repeated_args:
            module(*args)
            calls.append(("evaluate", args[1][0], config))
        return [0.5]

    def clean_up() -> None:
        calls.append("clean up")

    runner = LocalRunner(
        alloc_repeat=2,
        f_alloc_argument=allocate,
        f_run_evaluator=evaluate,
        f_cleanup=clean_up,
    )
    result = run_one(runner, input_of(faults.double, faults.double))
    assert result.run_secs == (0.5,)
    assert result.checked
    tensor = ["TENSOR", "float32", [64]]
    assert calls == [
        ("allocate", "cpu:0", [tensor, tensor], 2),
        ("evaluate", 6.0, EvaluatorConfig()),
        ("evaluate", 6.0, EvaluatorConfig()),
        "clean up",
    ]
    calls.clear()
    wrong = run_one(runner, input_of(faults.triple, faults.double))
    assert wrong.failure is FailureKind.WRONG_RESULT
    assert calls[-1] == "clean up"


def test_runner_by_name() -> None:
    assert isinstance(Runner.create("local", max_workers=4, timeout_sec=3), LocalRunner)


def test_plain_loops_that_are_clearly_slower_are_not_run_again(
    runner: LocalRunner, input_of: MakeInput
) -> None:
    product = matmul(160, 160, 160)
    given = dataclasses.replace(input_of(product, product), best_secs=1e-7, is_plain=True)
    result = run_one(runner, given)
    assert result.stopped_early
    assert result.run_secs is not None
    assert result.step_secs == {}  # nothing was loaded
    contender = dataclasses.replace(given, best_secs=result.run_secs[0])
    assert run_one(LocalRunner(), contender).step_secs  # it was run
