"""`ArraySearch`: what it proposes, what it replays, what it learns."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from tilewright.algebra.scoring import BatchScorer
from tilewright.cost_model import RandomModel
from tilewright.cost_model.prior import Machine, estimate
from tilewright.database import MemoryDatabase
from tilewright.errors import TuneError
from tilewright.records import (
    Candidates,
    MeasureCandidate,
    RunnerResult,
    TuningRecord,
    entry_function,
)
from tilewright.schedule import Schedule
from tilewright.search import ArraySearch
from tilewright.target import Target
from tilewright.testing.space_algebra import task_and_sketches
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import create_te_workload

CPU = Target("llvm -mcpu=cascadelake -num-cores 4")
TVM = "post-order-apply"


def task_of(name: str, target: Target = CPU, space: str = TVM) -> tuple[SpaceTask, list[Schedule]]:
    return task_and_sketches(create_te_workload(name, 0), target, space)


def started(task: SpaceTask, sketches: list[Schedule], count: int, **settings: Any) -> ArraySearch:
    search = ArraySearch(**{"population_size": 256, "generations": 2, **settings})
    search._initialize_with_tune_context(task)
    search.pre_tuning(64, count, sketches)
    return search


def seconds(candidate: MeasureCandidate) -> float:
    return estimate(entry_function(candidate.sch.mod), Machine.of(CPU))


def test_it_proposes_what_is_predicted_to_be_fast_and_replays_little_else() -> None:
    task, sketches = task_of("GMM")
    search = started(task, sketches, 10, eps_greedy=0.1)
    found = search.generate_measure_candidates()
    assert found is not None
    assert len({candidate.program_hash for candidate in found}) == 10
    predicted = search.predictions
    assert np.allclose(predicted, [1 / seconds(candidate) for candidate in found])  # type: ignore[arg-type]
    assert predicted[0] == max(predicted)  # type: ignore[type-var]
    assert search.statistics.proposed < 30
    by_chance = started(task, sketches, 10, eps_greedy=1.0).generate_measure_candidates()
    assert by_chance is not None
    assert max(map(seconds, found[:9])) < np.median([seconds(each) for each in by_chance])


def test_candidates_are_told_of_as_soon_as_they_are_chosen() -> None:
    task, sketches = task_of("GMM")
    told: list[tuple[MeasureCandidate, int]] = []
    search = started(task, sketches, 10)

    def chosen(candidate: MeasureCandidate) -> None:
        told.append((candidate, search.statistics.proposed))

    found = search.choose_candidates(chosen)
    assert [candidate for candidate, _ in told] == found
    replayed = [count for _, count in told]
    assert replayed == sorted(set(replayed))  # not all at the end
    search.generate_measure_candidates()
    assert len(told) == 10
    # What is told has no influence on what is chosen.
    again = started(*task_of("GMM"), 10).generate_measure_candidates()
    assert found is not None
    assert again is not None
    assert [each.program_hash for each in again] == [each.program_hash for each in found]


def test_a_small_space_is_looked_at_as_a_whole() -> None:
    task, sketches = task_of("SFM", space="tilewright")
    search = started(task, sketches, 12)
    found: list[float] = []
    while batch := search.generate_measure_candidates():
        found += map(seconds, batch)
        search.notify_runner_results(batch, [RunnerResult((1.0,)) for _ in batch])
    assert len(sketches) == 1
    assert len(found) == 16  # two decisions, four ways each
    assert found[0] == min(found)
    assert np.mean(found[:12]) < np.mean(found[12:])


def test_it_learns_what_the_prior_gets_wrong() -> None:
    """Where the fastest are slow in truth, others are predicted to be the best."""
    task, sketches = task_of("GMM")
    search = started(task, sketches[:1], 20)
    first = search.generate_measure_candidates()
    assert first is not None
    before = search.predictions
    search.notify_runner_results(first, [RunnerResult((1.0,)) for _ in first])
    assert search.generate_measure_candidates() is not None
    after = [score for score in search.predictions if score is not None]
    assert max(after) < min(score for score in before if score is not None) / 2


def test_a_sketch_that_the_prior_is_wrong_about_is_left_after_a_few_trials() -> None:
    task, sketches = task_of("TBG", space="tilewright")
    search = started(task, sketches, 64, first_batch=8)
    numbers: list[list[int]] = []
    for _ in range(3):
        batch = search.generate_measure_candidates()
        assert batch is not None
        numbers.append([search._waiting[each.program_hash].sketch for each in batch])
        favourite = max(set(numbers[0]), key=numbers[0].count)
        times = [
            seconds(each) * (3.0 if number == favourite else 1.0)
            for each, number in zip(batch, numbers[-1], strict=True)
        ]
        search.notify_runner_results(batch, [RunnerResult((secs,)) for secs in times])
    assert [len(each) for each in numbers] == [8, 8, 16]
    assert numbers[0].count(favourite) >= 3
    assert numbers[2].count(favourite) <= 2


def test_it_learns_from_earlier_searches() -> None:
    task, sketches = task_of("GMM")
    search = started(task, sketches, 8)
    batch = search.generate_measure_candidates()
    assert batch is not None
    times = [RunnerResult((seconds(each) * 3,)) for each in batch]
    search.notify_runner_results(batch, times)
    database = MemoryDatabase()
    assert task.mod is not None
    workload = database.commit_workload(task.mod)
    for each, result in zip(batch, times, strict=True):
        assert each.sch.trace is not None
        record = TuningRecord(each.sch.trace, workload, result.run_secs, CPU, each.args_info)
        database.commit_tuning_record(TuningRecord.from_json(record.as_json(), workload))
    later = ArraySearch(population_size=64, generations=1)
    later._initialize_with_tune_context(task)
    later.pre_tuning(64, 8, sketches, database)
    assert sorted(map(str, later._measured)) == sorted(
        str(replace(each, choice=replace(each.choice, predicted=each.choice.prior)))
        for each in search._measured
    )
    assert np.allclose([each.error for each in later._measured], np.log2(3))
    assert msgspec.json.encode(later.state_dict())  # plain values only, as databases keep them


def test_sketches_without_algebra_are_drawn_from(caplog: pytest.LogCaptureFixture) -> None:
    task, sketches = task_of("GMM", Target("nvidia/geforce-rtx-3080"))
    with caplog.at_level(logging.INFO, "tilewright.test"):
        search = started(task, sketches[:1], 2)
    assert "sketch 0 is searched by replay: only the prior of CPUs is on arrays" in caplog.text
    assert search.generate_measure_candidates()


class Backwards(RandomModel):
    """Likes what others call slow."""

    def predict(self, context: Any, candidates: Candidates) -> Any:
        return np.array([seconds(candidate) for candidate in candidates])


def test_of_sketches_without_algebra_the_cost_model_chooses() -> None:
    task, sketches = task_of("GMM")
    search = started(task, sketches[:1], 4)
    tuning = search._running("test")
    tuning.cost_model = Backwards()
    search._scorers.clear()
    found = search.generate_measure_candidates()
    assert found is not None
    times = list(map(seconds, found))
    assert len(times) == 4
    assert times == sorted(times, reverse=True)
    assert search.predictions == times
    assert search.statistics.proposed == 16


def test_a_sketch_whose_algebra_is_wrong_is_not_trusted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task, sketches = task_of("GMM")
    search = started(task, sketches[:2], 4)
    right = search._scorers[1]
    wrong = replace(right.machine, vector_bytes=2 * right.machine.vector_bytes)
    search._scorers[1] = BatchScorer(right.model, wrong)
    with caplog.at_level(logging.WARNING, "tilewright.test"):
        search.generate_measure_candidates()
    assert list(search._scorers) == [0]
    assert search.statistics.other_failures == {"algebra: not what a replay says": 1}
    assert "sketch 1 is searched by replay from now on: with decisions" in caplog.text
    state = search.state_dict()
    again = started(task, sketches[:2], 4)
    again.load_state_dict(state)
    assert list(again._scorers) == [0]


def test_structures_are_interpreted_a_few_at_a_time_and_known_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.search.array_search._MOST_NEW", 20)
    task, sketches = task_of("TBG")
    search = started(task, sketches[:1], 2, generations=0)
    assert search.generate_measure_candidates()
    state = json.loads(json.dumps(search.state_dict()))
    tree = search._scorers[0].model.tree
    assert 10 < len(tree.nodes) <= 50
    again = started(task, sketches[:1], 2, generations=0)
    again.load_state_dict(state)
    assert again._scorers[0].model.tree.ways == tree.ways


def test_bad_settings() -> None:
    with pytest.raises(TuneError) as error:
        ArraySearch(population_size=1)
    assert str(error.value) == (
        "ArraySearch needs a population of at least 2, generations from 0 on and eps_greedy from 0 "
        "to 1, got 1, 2 and 0.05"
    )


# --- wider sketches -----------------------------------------------------------------------------


def run_out(search: ArraySearch) -> int:
    """Measure all that a search proposes; how much that is."""
    count = 0
    while batch := search.generate_measure_candidates():
        count += len(batch)
        search.notify_runner_results(batch, [RunnerResult((seconds(each),)) for each in batch])
    return count


def softmax_search(trials: int, per_round: int = 12) -> ArraySearch:
    task, sketches = task_of("SFM", space="tilewright")
    search = ArraySearch(population_size=256, generations=2)
    search._initialize_with_tune_context(task)
    search.pre_tuning(trials, per_round, sketches)
    return search


def test_searches_with_few_trials_stay_narrow() -> None:
    search = softmax_search(64)
    assert run_out(search) == 16
    assert not search._running("test").is_wide


def test_longer_searches_go_on_in_the_wider_space(caplog: pytest.LogCaptureFixture) -> None:
    search = softmax_search(512)
    with caplog.at_level(logging.INFO, "tilewright.test"):
        assert run_out(search) == 32  # each of them with a reciprocal, too
    assert "after 16 trial(s): 1 wider sketch(es)" in caplog.text
    assert search.generate_measure_candidates() is None


def test_the_wider_space_comes_after_some_trials() -> None:
    task, sketches = task_of("GMM", space="tilewright")
    search = ArraySearch(population_size=64, generations=1)
    search._initialize_with_tune_context(task)
    search.pre_tuning(512, 32, sketches)
    wide = []
    for _ in range(3):
        batch = search.generate_measure_candidates()
        assert batch is not None
        wide.append(search._running("test").is_wide)
        search.notify_runner_results(batch, [RunnerResult((seconds(each),)) for each in batch])
    assert wide == [False, False, True]


def test_a_wide_search_goes_on_wide() -> None:
    search = softmax_search(512)
    for _ in range(2):
        batch = search.generate_measure_candidates()
        assert batch is not None
        search.notify_runner_results(batch, [RunnerResult((seconds(each),)) for each in batch])
    pending = search.generate_measure_candidates()  # from the wider space
    assert pending is not None
    state = json.loads(json.dumps(search.state_dict()))
    again = softmax_search(512)
    again.load_state_dict(state)
    assert again._running("test").is_wide
    assert again.state_dict() == search.state_dict()
    assert run_out(again) == len(pending) + run_out(search)
