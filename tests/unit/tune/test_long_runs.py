"""A thousand trials: memory stays what it was after the first two hundred."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.te_workload import create_te_workload
from tilewright.tune import tune_tir
from tilewright.tune.events import RoundMeasured

def watch(event):
    if isinstance(event, RoundMeasured):
        with open("/proc/self/statm") as file:
            print(event.trials, file.read().split()[1], flush=True)

tune_tir(
    create_te_workload("GMM", 3), "llvm -num-cores=2", max_trials_global=1000, seed=1,
    builder=FakeBuilder(), runner=FakeRunner(), space="post-order-apply", console=False,
    observers=[watch],
)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_flat() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600, check=True
    )
    rounds = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sum(trials for trials, _ in rounds) == 1000
    seen, after = 0, []
    for trials, pages in rounds:
        seen += trials
        if seen >= 192:
            after.append(pages)
    # Database and history are in memory here, so they are part of what may grow.
    assert max(after) < 1.15 * after[0]
