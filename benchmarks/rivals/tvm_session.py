"""MetaSchedule as a rival of our tuner: tunes functions, and times the best kernel of the last.

Runs in TVM's own environment. Each line on standard input is a JSON list, each answer a line:

    ["tune", ...]      {"wall": seconds, "spread": median / best, "note": what else}, or {"error"}
    ["time", number]   seconds of one run, the mean of `number` in a row
"""

import json
import statistics
import sys
import tempfile
import time

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms

# A worker of TVM's first spends some 20 s on imports. On a busy machine that is more than the 30 s
# that a build may take by default; it is then started again, and none ever gets ready.
BUILD_SECONDS = 120


class Session:
    """The function that was tuned last; subclasses make functions from questions."""

    def __init__(self, target: dict) -> None:
        self.target = tvm.target.Target(target)
        self.executable = None
        self.kernel = None
        self.arguments = []

    def create(self, *question):
        """The function that a question names."""
        raise NotImplementedError

    def data(self, func) -> list:
        """Arrays for its arguments."""
        random = np.random.default_rng(0)
        return [random.random(shape, dtype="float32") for shape, _ in arguments_of(func)]

    def tune(self, *question) -> dict:
        """Tune, then build the best schedule; the last item of the question is how many trials."""
        func = self.create(*question[:-1])
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            database = ms.tune_tir(
                mod=func,
                target=self.target,
                work_dir=folder,
                max_trials_global=question[-1],
                builder=ms.builder.LocalBuilder(timeout_sec=BUILD_SECONDS),
            )
            wall = time.perf_counter() - start
            schedule = ms.tir_integration.compile_tir(database, func, self.target)
            records = database.get_all_tuning_records()
            seconds = [statistics.median(float(s) for s in r.run_secs) for r in records]
        ran = sorted(s for s in seconds if s < 1e9)
        if schedule is None or not ran:
            raise RuntimeError(f"none of {len(records)} candidates ran")
        self.executable = tvm.compile(schedule.mod, target=self.target)
        self.kernel = self.executable["main"]
        device = tvm.cpu()
        self.arguments = [tvm.runtime.tensor(array, device) for array in self.data(func)]
        note = f"; {len(ran)} of {len(records)} ran" if len(ran) < len(records) else ""
        return {"wall": wall, "spread": statistics.median(ran) / ran[0], "note": note}

    def time(self, number: int) -> float:
        """The mean of some runs in a row."""
        self.kernel(*self.arguments)
        start = time.perf_counter()
        for _ in range(number):
            self.kernel(*self.arguments)
        return (time.perf_counter() - start) / number


def arguments_of(func) -> list:
    """Shape and type of each argument."""
    buffers = [func.buffer_map[param] for param in func.params]
    return [([int(extent) for extent in buffer.shape], str(buffer.dtype)) for buffer in buffers]


def serve(kind: type[Session]) -> None:
    """Answer until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # MetaSchedule prints
    session = kind(json.loads(sys.argv[1]))
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        try:
            answer = getattr(session, command)(*arguments)
        except Exception as error:  # a workload that TVM cannot tune is a result, not an accident
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)
