"""`EvolutionarySearch`: TVM's behaviour, and what we promise beyond it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model.random_model import RandomModel
from tilewright.database import MemoryDatabase
from tilewright.errors import TuneError
from tilewright.records import MeasureCandidate, TuningRecord, candidate_hash
from tilewright.schedule import Schedule, Trace
from tilewright.search import EvolutionarySearch, SearchStatistics, search_strategies
from tilewright.space.base import Mutator, Postproc
from tilewright.space.mutators import MutateTileSize
from tilewright.target import Target
from tilewright.testing.small_search import MODULE, Search, nothing, tile_all, tile_two


class DrawsAgain(Mutator):
    """The same steps with all decisions open."""

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        return Trace(trace.insts)


class RejectsAll(Postproc):
    def apply(self, sch: Schedule) -> bool:
        return False


class InnerTile(RandomModel):
    """Prefers large innermost tiles; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.asked: list[int] = []

    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        self.asked.append(len(candidates))
        return np.array([float(inner_tile(candidate)) for candidate in candidates])


def inner_tile(candidate: MeasureCandidate) -> int:
    """The last factor of the second loop's tiling."""
    trace = candidate.sch.trace
    assert trace is not None
    tiles = [trace.decisions[i] for i in trace.insts if i.primitive.kind == "SamplePerfectTile"]
    return int(tiles[1][-1])


def tvm_test_settings(**changes: Any) -> EvolutionarySearch:
    settings = {
        "population_size": 5,
        "init_measured_ratio": 0.1,
        "init_min_unmeasured": 50,
        "genetic_num_iters": 3,
        "genetic_mutate_prob": 0.5,
        "eps_greedy": 0.9,
        **changes,
    }
    return EvolutionarySearch(**settings)


def statistics_of(search: Search) -> SearchStatistics:
    assert isinstance(search.strategy, EvolutionarySearch)
    return search.strategy.statistics


# --- as TVM ---------------------------------------------------------------------------------------


def test_defaults_are_those_of_tvm() -> None:
    assert EvolutionarySearch().settings() == {
        "population_size": 512,
        "init_measured_ratio": 0.2,
        "init_min_unmeasured": 50,
        "max_fail_count": 5,
        "genetic_num_iters": 4,
        "genetic_mutate_prob": 0.85,
        "genetic_max_fail_count": 10,
        "eps_greedy": 0.05,
        "carry_over_ratio": 0.0,
        "num_empty_iters_before_early_stop": 5,
    }


def test_kinds() -> None:
    frugal = search_strategies.create("evolutionary")
    assert isinstance(frugal, EvolutionarySearch)
    assert frugal.settings() == EvolutionarySearch.frugal().settings()
    assert frugal.population_size == 96
    theirs: Any = search_strategies.create("evolutionary-tvm", eps_greedy=0.5)
    assert theirs.settings() == EvolutionarySearch(eps_greedy=0.5).settings()
    small: Any = search_strategies.create("evolutionary", population_size=7)
    assert small.population_size == 7


def test_small_space_is_measured_once_and_completely() -> None:
    search = Search(tvm_test_settings(), tile_two, mutators={DrawsAgain(): 1.0})
    sizes = search.begin(2000, 10).sizes()
    assert sum(sizes) == 25
    assert sizes.count(0) < 5


def test_stops_when_nothing_new_comes() -> None:
    sizes = Search(tvm_test_settings(), nothing).begin(2000, 10).sizes()
    assert sizes == [1, 0, 0, 0, 0]


def test_nothing_legal_ends_the_search(caplog: pytest.LogCaptureFixture) -> None:
    search = Search(tvm_test_settings(), postprocs=[RejectsAll()]).begin(2000, 10)
    with caplog.at_level(logging.WARNING):
        assert search.next_batch() is None
    assert caplog.messages == [
        "Cannot sample enough initial population, evolutionary search failed: 0 draft(s) of at "
        "least 50"
    ]
    assert statistics_of(search).rejected == {"RejectsAll": 25}  # 5 rounds of 5


def test_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    search = Search(
        EvolutionarySearch(population_size=6, init_min_unmeasured=4, genetic_num_iters=1),
        mutators={MutateTileSize(): 1.0},
    )
    with caplog.at_level(logging.INFO):
        search.begin(8, 4).next_batch()
    texts = caplog.messages
    assert texts[:3] == [
        "Generating candidates......",
        "Picked top 0 candidate(s) from database",
        "Sample-Init-Population summary:\n",
    ]
    assert texts[3] == "Sampled 6 candidate(s)"
    assert texts[4] == "Evolve iter #0 done. Summary:\n"
    assert texts[5].startswith("Scores of the best 4 candidates:\n[1 : 4]:\t")
    assert texts[6:] == [
        "Got 4 candidate(s) with evolutionary search",
        "Sending 4 candidates(s) for measurement",
    ]


def test_needs_database_and_model() -> None:
    search = Search(EvolutionarySearch())
    spaces = search.space.generate_design_space(MODULE)
    with pytest.raises(TuneError, match="EvolutionarySearch needs a database"):
        search.strategy.pre_tuning(1, 1, spaces, None, RandomModel(seed=1))
    with pytest.raises(TuneError, match="EvolutionarySearch needs a cost model"):
        search.strategy.pre_tuning(1, 1, spaces, MemoryDatabase(), None)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("eps_greedy", 1.5, "eps_greedy must be from 0 to 1, got 1.5"),
        ("genetic_mutate_prob", -0.1, "genetic_mutate_prob must be from 0 to 1, got -0.1"),
        ("population_size", 0, "population_size must be at least 1, got 0"),
        ("genetic_num_iters", -1, "genetic_num_iters must be at least 0, got -1"),
    ],
)
def test_bad_settings(name: str, value: float, message: str) -> None:
    with pytest.raises(TuneError, match=message):
        EvolutionarySearch(**{name: value})  # type: ignore[arg-type]


# --- beyond TVM -----------------------------------------------------------------------------------


def small(**changes: Any) -> EvolutionarySearch:
    return EvolutionarySearch.frugal(**{"population_size": 16, "init_min_unmeasured": 4, **changes})


def test_model_ranks_before_the_first_measurement() -> None:
    search = Search(small(eps_greedy=0.0), mutators={MutateTileSize(): 1.0})
    batch = search.begin(8, 8, InnerTile()).next_batch()
    assert batch is not None
    scores = [inner_tile(candidate) for candidate in batch]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 16  # the limit of the innermost tile
    assert search.strategy._tuning.pending == []  # type: ignore[attr-defined]


def test_model_is_asked_once_a_program_and_round() -> None:
    model = InnerTile()
    search = Search(small(), tile_two, mutators={DrawsAgain(): 1.0}).begin(50, 5, model)
    search.next_batch()
    assert sum(model.asked) <= 25


def test_predictions_belong_to_the_batch() -> None:
    search = Search(small(), mutators={MutateTileSize(): 1.0}).begin(8, 4, InnerTile())
    batch = search.strategy.generate_measure_candidates()
    assert batch is not None
    strategy = search.strategy
    assert isinstance(strategy, EvolutionarySearch)
    assert strategy.predictions == [inner_tile(candidate) for candidate in batch]


def test_batches_stay_full_while_there_is_something_new() -> None:
    search = Search(small(), tile_two, mutators={DrawsAgain(): 1.0}).begin(1000, 5)
    sizes = search.sizes()
    assert sum(sizes) == 25
    assert sizes[:4] == [5, 5, 5, 5]


def test_records_of_earlier_runs_are_not_measured_again() -> None:
    database = MemoryDatabase()
    first = Search(small(), tile_two, database=database, seed=1).begin(10, 10).next_batch()
    again = Search(small(), tile_two, database=database, seed=1).begin(10, 10).next_batch()
    assert first is not None
    assert again is not None
    seen = [candidate_hash(candidate) for candidate in (*first, *again)]
    assert len(again) >= 8  # random drafts fill up what the same seed finds known
    assert len(set(seen)) == len(seen)


def test_records_without_a_hash_are_known_by_their_trace() -> None:
    database = MemoryDatabase()
    search = Search(small(), tile_two, database=database, seed=1).begin(10, 10)
    batch = search.strategy.generate_measure_candidates()
    assert batch is not None
    workload = database.commit_workload(MODULE)
    for candidate in batch:
        trace = candidate.sch.trace
        assert trace is not None
        database.commit_tuning_record(TuningRecord(trace, workload, (1.0,)))
    again = Search(small(), tile_two, database=database, seed=1).begin(10, 10).next_batch()
    assert again is not None
    seen = {candidate_hash(candidate) for candidate in (*batch, *again)}
    assert len(seen) == len(batch) + len(again)


def test_records_of_another_machine_do_not_count() -> None:
    database = MemoryDatabase()
    search = Search(small(), nothing, database=database).begin(5, 5)
    batch = search.strategy.generate_measure_candidates()
    assert batch is not None
    trace = batch[0].sch.trace
    assert trace is not None
    other = Target("llvm -mcpu=haswell -num-cores=64")
    workload = database.commit_workload(MODULE)
    database.commit_tuning_record(TuningRecord(trace, workload, (1.0,), other))
    again = Search(small(), nothing, database=database).begin(5, 5).next_batch()
    assert again is not None
    assert len(again) == 1


def test_good_drafts_are_carried_over() -> None:
    search = Search(small(eps_greedy=0.0), mutators={MutateTileSize(): 1.0})
    search.begin(100, 4, InnerTile()).next_batch()
    strategy = search.strategy
    assert isinstance(strategy, EvolutionarySearch)
    assert len(strategy._carried) == int(16 * 0.4)
    proposed = statistics_of(search).proposed
    search.next_batch()
    # Measured and carried drafts are not replayed again: 16 - 3 - 6 are sampled, 2 x 16 evolved.
    assert statistics_of(search).proposed - proposed <= 7 + 2 * 16 * 4


# --- what fails -----------------------------------------------------------------------------------


class FailsOften(Mutator):
    def __init__(self) -> None:
        self.turn = 0

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        self.turn += 1
        if self.turn % 3 == 0:
            raise ValueError("a mutator with a bug")
        if self.turn % 3 == 1:
            return None
        return MutateTileSize().apply(trace, seed)


def test_mutators_that_fail_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    search = Search(small(), mutators={FailsOften(): 1.0})
    with caplog.at_level(logging.WARNING):
        assert search.begin(8, 4).sizes() == [4, 4]
    counts = statistics_of(search)
    assert counts.mutator_failures["FailsOften: ValueError"] > 5
    assert counts.mutator_refusals["FailsOften"] > 5
    assert len(caplog.messages) == 1
    assert "FailsOften failed with ValueError: a mutator with a bug" in caplog.messages[0]


class NoModel(RandomModel):
    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        raise RuntimeError("a model with a bug")


def test_model_that_fails_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    search = Search(small(), mutators={MutateTileSize(): 1.0}).begin(8, 4, NoModel(seed=1))
    with caplog.at_level(logging.WARNING):
        assert search.sizes() == [4, 4]
    assert set(statistics_of(search).other_failures) == {"NoModel: RuntimeError"}


class NotNumbers(RandomModel):
    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        return np.full(len(candidates), np.nan)


class Negative(RandomModel):
    def predict(
        self, context: Any, candidates: Sequence[MeasureCandidate]
    ) -> npt.NDArray[np.float64]:
        return -np.array([float(inner_tile(candidate)) for candidate in candidates])


@pytest.mark.parametrize("model", [NotNumbers, Negative])
def test_models_with_unusual_scores(model: type[RandomModel]) -> None:
    search = Search(small(), mutators={MutateTileSize(): 1.0}).begin(8, 4, model(seed=1))
    assert search.sizes() == [4, 4]


class BrokenDatabase(MemoryDatabase):
    def get_top_k(self, workload: Any, top_k: int) -> list[TuningRecord]:
        raise OSError("the disk is gone")


def test_database_that_fails_is_counted() -> None:
    search = Search(small(), database=BrokenDatabase()).begin(8, 4)
    assert search.sizes() == [4, 4]
    assert statistics_of(search).other_failures == {"BrokenDatabase: OSError": 2}


# --- resuming -------------------------------------------------------------------------------------


def test_resumed_search_does_the_same() -> None:
    def search(database: MemoryDatabase) -> Search:
        made = Search(small(), tile_all, mutators={MutateTileSize(): 1.0}, database=database)
        return made.begin(40, 5, InnerTile())

    def hashes(batch: list[MeasureCandidate] | None) -> list[str]:
        return [candidate_hash(candidate) for candidate in batch or ()]

    whole = search(MemoryDatabase())
    expected = [hashes(whole.next_batch()) for _ in range(4)]

    database = MemoryDatabase()
    killed = search(database)
    found = [hashes(killed.next_batch()) for _ in range(2)]
    pending = killed.strategy.generate_measure_candidates()
    state = json.loads(json.dumps(killed.strategy.state_dict()))
    resumed = search(database)
    resumed.strategy.load_state_dict(state)
    found += [hashes(resumed.next_batch()) for _ in range(2)]
    assert found[2] == hashes(pending)
    assert found == expected
    assert statistics_of(resumed).sent == statistics_of(whole).sent
