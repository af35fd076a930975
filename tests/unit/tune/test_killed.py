"""The tuner is killed at random points and started again: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.records import CANDIDATE_HASH

KILLS = 20
TRIALS = 40
# Times follow from the programs, so measuring again would give the same: what counts is whether
# records are lost, doubled, or others than without the kills.
SCRIPT = f"""
import sys
from tilewright.search import EvolutionarySearch
from tilewright.space.generators import ScheduleFn
from tilewright.space.mutators import MutateTileSize
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune import tune_tir
from tilewright.database import SQLiteDatabase

print("started", flush=True)
tune_tir(
    matmul, "llvm -num-cores=2", max_trials_global={TRIALS}, num_trials_per_iter=4, seed=3,
    builder=FakeBuilder(), runner=FakeRunner(delay=0.005), database=SQLiteDatabase(sys.argv[1]),
    space=ScheduleFn(tile_all, [], [], {{MutateTileSize(): 1.0}}), console=False,
    strategy=EvolutionarySearch.frugal(
        population_size=10, genetic_num_iters=1, init_min_unmeasured=2),
)
"""


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE, text=True
    )


def programs(path: Path) -> list[str]:
    """What was committed, in order."""
    if not path.exists():
        return []
    with sqlite3.connect(path) as connection:
        try:
            rows = connection.execute(
                "SELECT json_extract(extra, ?) FROM records ORDER BY id", (f"$.{CANDIDATE_HASH}",)
            )
            return [str(row[0]) for row in rows]
        except sqlite3.OperationalError:  # killed before there were tables
            return []


def killed_after(path: Path, seconds: float) -> bool:
    """Start, kill after a while; True if it came to its end before that."""
    process = start(path)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    process.stdout.close()
    return process.returncode == 0


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    begin = time.monotonic()
    assert killed_after(whole, 120)
    takes = time.monotonic() - begin
    expected = programs(whole)
    assert len(expected) == len(set(expected)) == TRIALS

    path, chance = tmp_path / "killed.db", random.Random(20)
    before: list[str] = []
    for _ in range(KILLS):
        if killed_after(path, chance.uniform(0, takes / 4)):
            # It is done: begin anew, there are kills left. Its log goes, too, or SQLite would take
            # it for that of the new file.
            for file in tmp_path.glob("killed.db*"):
                file.unlink()
            before = []
            continue
        found = programs(path)
        assert found[: len(before)] == before, "a committed record was lost"
        assert len(set(found)) == len(found), "a record came twice"
        assert found == expected[: len(found)], "the search went another way"
        before = found
    assert killed_after(path, 120)
    assert programs(path) == expected
    best = [SQLiteDatabase(each).get_all_tuning_records() for each in (whole, path)]
    first, second = (min(record.mean_secs for record in records) for records in best)
    assert first == second
