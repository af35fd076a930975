"""Tuners that share a PostgreSQL database: none measures what another does, all know the best."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tilewright.database import Database, PostgresDatabase
from tilewright.records import RunnerFuture, RunnerInput, candidate_hash
from tilewright.testing.conformance.database import LLVM, matmul
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.testing.postgres_server import PostgresServer, postgres_server
from tilewright.tune.api import tune_tir

MOD = matmul(64, 64, 64)
BASELINES = 2  # which are measured first


class Watched(MadeUp):
    """Notes what it measures; something else happens once it was given more candidates."""

    def __init__(
        self, in_the_middle: Callable[[], object] = lambda: None, after: int = BASELINES
    ) -> None:
        super().__init__()
        self.in_the_middle, self.after = in_the_middle, after
        self.measured: list[str] = []

    def run(self, runner_inputs: Sequence[RunnerInput]) -> Sequence[RunnerFuture]:
        candidates = [each.candidate for each in runner_inputs]
        self.measured += [candidate_hash(each) for each in candidates if each is not None]
        if len(self.measured) > self.after:
            happens, self.in_the_middle = self.in_the_middle, lambda: None
            happens()
        return super().run(runner_inputs)


def tune(database: Database, runner: Watched, trials: int = 24) -> None:
    tune_tir(
        MOD,
        LLVM,
        max_trials_global=trials,
        num_trials_per_iter=8,
        builder=NoBuilder(),
        runner=runner,
        database=database,
        cost_model="random",
        strategy="replay-trace",
        seed=3,
        check=False,
        console=False,
    )


@pytest.mark.parametrize("after", [0, BASELINES])  # the second one comes while baselines run, later
def test_a_tuner_leaves_to_others_what_they_measure(postgres: PostgresServer, after: int) -> None:
    url = postgres.new_database()
    ours, theirs = PostgresDatabase(url), PostgresDatabase(url)
    second = Watched()
    first = Watched(lambda: tune(theirs, second), after)
    tune(ours, first)
    assert len(second.measured) > 8
    both = Counter(first.measured + second.measured)
    assert [program for program, times in both.items() if times > 1] == []
    programs = [record.extra["candidate_hash"] for record in ours.get_all_tuning_records()]
    assert sorted(programs) == sorted(both)
    ours.close()
    theirs.close()


@pytest.mark.slow
def test_tuning_survives_fifty_kills_of_the_server(postgres: PostgresServer) -> None:
    with postgres_server() as mortal:
        database, runner = PostgresDatabase(mortal.new_database()), Watched()
        is_over = threading.Event()
        killer = threading.Thread(target=kill_often, args=(mortal, is_over))
        killer.start()
        trials = 0
        while killer.is_alive():
            trials += 16
            tune(database, runner, trials=trials)
        is_over.set()
        killer.join()
        # What was measured was committed, and what was committed is there.
        programs = [record.extra["candidate_hash"] for record in database.get_all_tuning_records()]
        assert sorted(programs) == sorted(runner.measured)
        assert database.problems() == []
        database.close()


def kill_often(server: PostgresServer, is_over: threading.Event) -> None:
    rng = random.Random(4)
    for _ in range(50):
        if is_over.wait(rng.uniform(0.0, 0.5)):
            return
        server.stop(signal.SIGKILL)
        server.start()


def test_alone_they_would_measure_the_same() -> None:
    """The test above means something: the searches have the same seed."""
    first, second = Watched(), Watched()
    for runner in (first, second):
        tune(Database.create("memory"), runner)
    assert first.measured == second.measured
