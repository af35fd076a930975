"""Candidates that hang, crash or trap on a real GPU: each costs its own trial, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.ir import PrimFunc
from tilewright.measure import LocalRunner
from tilewright.measure.artifact import write_artifact
from tilewright.measure.tolerance import Rounding
from tilewright.native.cuda_driver import cuda_driver
from tilewright.records import FailureKind, RunnerInput, RunnerResult, TensorInfo
from tilewright.testing.launched_modules import (
    built,
    crash,
    hang,
    scale_twice,
    stray,
    trap,
    wait,
)

pytestmark = pytest.mark.cuda
INFOS = (TensorInfo("float32", (512,)),) * 2
SECONDS = 8.0


@pytest.fixture
def candidate(tmp_path: Path) -> Callable[[PrimFunc], RunnerInput]:
    def make(func: PrimFunc) -> RunnerInput:
        path = tmp_path / f"{func.name}.kernel"
        module = built(func, target=f"cuda -arch={cuda_driver().arch(0)}")
        write_artifact(path, module, Rounding())
        return RunnerInput(str(path), "cuda", INFOS)

    return make


@pytest.fixture
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(timeout_sec=SECONDS, seed=1)
    yield made
    made.close()


def run(runner: LocalRunner, *inputs: RunnerInput) -> list[RunnerResult]:
    return [future.result() for future in runner.run(inputs)]


LOST = "this process cannot use the GPU any more, start it again"
CASES = {
    "crash": (crash, FailureKind.CRASH, "CUDA_ERROR_ILLEGAL_ADDRESS", LOST),
    "stray": (stray, FailureKind.CRASH, "CUDA_ERROR_ILLEGAL_ADDRESS", LOST),
    "trap": (trap, FailureKind.CRASH, "CUDA_ERROR_", LOST),
    "wait": (wait, FailureKind.CRASH, "CUDA_ERROR_", LOST),
    "hang": (hang, FailureKind.TIMEOUT, "LocalRunner: Timeout, killed after ", " seconds"),
}


@pytest.mark.parametrize("case", CASES)
def test_it_costs_its_own_trial(
    case: str, runner: LocalRunner, candidate: Callable[[PrimFunc], RunnerInput]
) -> None:
    func, failure, *texts = CASES[case]
    good = candidate(scale_twice)
    start = time.perf_counter()
    before, bad, after = run(runner, good, candidate(func), good)
    print(f"\n{case}: {time.perf_counter() - start:.1f} s\n{bad.error_msg}")
    assert before.failure is None, before.error_msg
    assert bad.failure is failure
    assert all(text in str(bad.error_msg) for text in texts)
    assert after.failure is None, after.error_msg


def test_one_of_several_that_are_measured_again(
    runner: LocalRunner, candidate: Callable[[PrimFunc], RunnerInput]
) -> None:
    good = candidate(scale_twice)
    first, bad, last = runner.measure_again([good, candidate(crash), good])
    assert first.failure is None
    assert bad.failure is FailureKind.CRASH
    assert last.failure is None
