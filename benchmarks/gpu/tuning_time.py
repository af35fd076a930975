"""Rows of `tune_gpu.py` about time: until the first kernel, and of a search."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from gpu.cases import gemm
from gpu.first_kernel import PROGRAMS
from harness import Report, Row

import tilewright as tw
from tilewright import meta_schedule as ms

FIRST_SECONDS, SEARCH_SECONDS = 2.0, 120.0  # the limits that times are compared with
SEARCH_TRIALS = 200


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


def search(report: Report) -> None:
    """Seconds of a search, and how many of its candidates are right."""
    case = gemm(1024, 1024, 1024, "float16")
    database = ms.database.MemoryDatabase()
    start = time.perf_counter()
    ms.tune_tir(
        case.program(),
        tw.Target("cuda"),
        max_trials_global=SEARCH_TRIALS,
        database=database,
        console=False,
    )
    seconds = time.perf_counter() - start
    records = database.get_all_tuning_records()
    causes = Counter(record.failure.value for record in records if record.failure is not None)
    right = [min(record.run_secs) for record in records if record.run_secs]
    shown = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    note = (
        f"{len(records)} trials, {len(right) / len(records):.1%} right ({shown or 'no failure'}), "
        f"best {min(right) * 1e6:.2f} us"
    )
    name = case.name.replace("gpu_gemm", "gpu_search")
    report.add(Row(name, seconds, SEARCH_SECONDS, "limit", "s", note))
