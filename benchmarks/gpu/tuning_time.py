"""Rows of `tune_gpu.py` about time: until the first kernel, and of a search."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from gpu.cases import Case, add_relu, conv, dense, gemm, softmax
from gpu.first_kernel import PROGRAMS
from harness import Report, Row

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.tune.events import PhaseChanged

FIRST_SECONDS, SEARCH_SECONDS = 2.0, 120.0  # the limits that times are compared with
SEARCH_TRIALS, OTHER_TRIALS = 200, 32


class _Phases:
    """An observer that adds up the seconds of searching, building and running."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._current, self._since = "start", time.perf_counter()

    def __call__(self, event: object) -> None:
        self._seconds[self._current] += time.perf_counter() - self._since
        self._since = time.perf_counter()
        self._current = event.phase if isinstance(event, PhaseChanged) else self._current

    def __str__(self) -> str:
        return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._seconds.items())


def first_kernels(report: Report) -> None:
    """Seconds of a new process with an empty cache, until the code of a kernel is there."""
    script = Path(__file__).parent / "first_kernel.py"
    for kind in PROGRAMS:
        with tempfile.TemporaryDirectory() as cache:
            command = ["env", f"XDG_CACHE_HOME={cache}", sys.executable, str(script), kind]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            report.skip(f"gpu_start_{kind}", done.stderr.strip().splitlines()[-1])
            continue
        parts = json.loads(done.stdout)
        note = ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
        ours = parts["schedule"] + parts["build"]
        report.add(Row(f"gpu_start_{kind}", ours, FIRST_SECONDS, "limit", "s", note))


def searches(report: Report) -> None:
    """The search that has a limit, and shorter ones of other kinds."""
    search(report, gemm(1024, 1024, 1024, "float16"), SEARCH_TRIALS)
    for case in (
        gemm(1024, 1024, 1024, "float32"),
        gemm(2048, 2048, 2048, "int8"),
        conv(16, 56, 64, 64, 3),
        dense(512, 3072, 768),
        softmax(1024, 1024),
        add_relu(4096, 4096),
    ):
        search(report, case, OTHER_TRIALS)


def search(report: Report, case: Case, trials: int) -> None:
    """Seconds of a search, and how many of its candidates are right."""
    phases, database = _Phases(), ms.database.MemoryDatabase()
    start = time.perf_counter()
    ms.tune_tir(
        case.program(),
        tw.Target("cuda"),
        max_trials_global=trials,
        budget_secs=SEARCH_SECONDS,
        database=database,
        console=False,
        observers=[phases],
    )
    seconds = time.perf_counter() - start
    records = database.get_all_tuning_records()
    causes = Counter(record.failure.value for record in records if record.failure is not None)
    right = [min(record.run_secs) for record in records if record.run_secs]
    shown = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    note = (
        f"{len(records)} trials, {len(right) / len(records):.1%} right ({shown or 'no failure'}), "
        f"best {min(right, default=0) * 1e6:.2f} us; {phases}"
    )
    name = case.name.replace("gpu_", "gpu_search_").replace("_gemm", "")
    report.add(Row(name, seconds, SEARCH_SECONDS, "limit", "s", note))
