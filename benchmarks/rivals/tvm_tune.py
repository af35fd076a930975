"""TVM's side of `tune_cpu`: tunes a workload with MetaSchedule and times its best kernel.

Runs in TVM's own environment. Each line on standard input is a JSON list, each answer a line:

    ["tune", name, index, trials]   {"wall": seconds, "trials": measured, "spread": median / best}
    ["time", number]                seconds of one run, the mean of `number` in a row
"""

import json
import statistics
import sys
import tempfile
import time

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload


class Session:
    """The workload that was tuned last."""

    def __init__(self, target: dict) -> None:
        self.target = tvm.target.Target(target)
        self.kernel = None
        self.arguments = []

    def tune(self, name: str, index: int, trials: int) -> dict:
        """Tune, then build the best schedule."""
        func = create_te_workload(name, index)
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            database = ms.tune_tir(
                mod=func, target=self.target, work_dir=folder, max_trials_global=trials
            )
            wall = time.perf_counter() - start
            schedule = ms.tir_integration.compile_tir(database, func, self.target)
            records = database.get_all_tuning_records()
            seconds = [statistics.median(float(s) for s in r.run_secs) for r in records]
        self.kernel = tvm.compile(schedule.mod, target=self.target)["main"]
        device = tvm.cpu()
        random = np.random.default_rng(0)
        self.arguments = [
            tvm.runtime.tensor(random.random(self.shape(func, param), dtype="float32"), device)
            for param in func.params
        ]
        ran = sorted(s for s in seconds if s < 1e9)
        return {
            "wall": wall,
            "trials": len(records),
            "spread": statistics.median(ran) / ran[0],
        }

    @staticmethod
    def shape(func, param) -> list:
        """The shape of an argument."""
        return [int(extent) for extent in func.buffer_map[param].shape]

    def time(self, number: int) -> float:
        """The mean of some runs in a row."""
        self.kernel(*self.arguments)
        start = time.perf_counter()
        for _ in range(number):
            self.kernel(*self.arguments)
        return (time.perf_counter() - start) / number


def main() -> None:
    """Answer until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # MetaSchedule prints
    session = Session(json.loads(sys.argv[1]))
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(getattr(session, command)(*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
