"""A runner of your own: what a candidate takes is what you say it takes.

Kernels are usually timed with their data in the caches. This runner empties the caches before every
run, which is what a kernel sees that is called once in a while. It works in this process: a
candidate that crashes takes the tuner with it, and results are not checked. A function given as
`ms.runner.LocalRunner(f_run_evaluator=...)` runs in a process of its own, with a time-out.

    python examples/custom_runner.py
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from tilewright import meta_schedule as ms
from tilewright.errors import TilewrightError
from tilewright.measure import FinishedFuture, load_artifact
from tilewright.records import FailureKind
from tilewright.testing.handwritten import matmul

SIZE = 128
TRIALS = 16
CACHES = 64 << 20  # bytes; more than most machines have


@ms.derived_object
class ColdRunner(ms.runner.PyRunner):
    """Times single runs with cold caches."""

    def __init__(self, repeat: int = 5) -> None:
        self.repeat = repeat
        self.random = np.random.default_rng(0)
        self.pollution = np.zeros(CACHES, np.uint8)

    def run(
        self, runner_inputs: Sequence[ms.runner.RunnerInput]
    ) -> Sequence[ms.runner.RunnerFuture]:
        """One future for each candidate, in order; ours are done at once."""
        return [FinishedFuture(self._result(each)) for each in runner_inputs]

    def _result(self, given: ms.runner.RunnerInput) -> ms.runner.RunnerResult:
        """A candidate that cannot run is a result like any other, not an exception."""
        arrays = [self.random.random(info.shape).astype(info.dtype) for info in given.args_info]
        try:
            kernel, _ = load_artifact(given.artifact_path)
            kernel(*arrays)  # the first run loads the code
            secs = tuple(self._seconds(kernel, arrays) for _ in range(self.repeat))
        except TilewrightError as error:
            return ms.runner.RunnerResult(None, str(error), FailureKind.RUN_ERROR)
        return ms.runner.RunnerResult(secs, protocol=f"{self.repeat} runs, cold caches")

    def _seconds(self, kernel: object, arrays: Sequence[object]) -> float:
        assert callable(kernel)
        self.pollution += 1
        start = time.perf_counter()
        kernel(*arrays)
        return time.perf_counter() - start


def main() -> None:
    """Tune a product for cold caches, and see what its best kernel takes with warm ones."""
    func = matmul(SIZE, SIZE, SIZE)
    database = ms.tune_tir(
        func, "llvm", max_trials_global=TRIALS, runner=ColdRunner(), seed=0, console=False
    )
    records = [record for record in database.get_all_tuning_records() if record.is_valid]
    best = min(records, key=lambda record: median(record.run_secs or [float("inf")]))
    print(f"{len(records)} measured as: {best.extra['protocol']}")
    print(f"best, cold: {median(best.run_secs or [0.0]) * 1e6:.0f} us")


if __name__ == "__main__":
    main()
