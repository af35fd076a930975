"""`ArraySearch`: what it proposes, what it replays, what it learns."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from tilewright.cost_model.prior import Machine, estimate
from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.records import MeasureCandidate, RunnerResult, entry_function
from tilewright.schedule import Schedule
from tilewright.search import ArraySearch
from tilewright.space.generators import create_space_generator
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import create_te_workload

CPU = Target("llvm -mcpu=cascadelake -num-cores 4")
TVM = "post-order-apply"


def task_of(name: str, target: Target = CPU, space: str = TVM) -> tuple[SpaceTask, list[Schedule]]:
    mod = IRModule({"main": create_te_workload(name, 0)})
    task = SpaceTask(mod, target, space_generator=create_space_generator(space))
    assert task.space_generator is not None
    task.space_generator._initialize_with_tune_context(task)
    return task, task.space_generator.generate_design_space(mod)


def begun(task: SpaceTask, sketches: list[Schedule], count: int, trials: int = 64) -> ArraySearch:
    search = ArraySearch(population_size=256, generations=2)
    search._initialize_with_tune_context(task)
    search.pre_tuning(trials, count, sketches)
    return search


def seconds(candidate: MeasureCandidate) -> float:
    return estimate(entry_function(candidate.sch.mod), Machine.of(CPU))


def test_it_proposes_what_is_predicted_to_be_fast_and_replays_little_else() -> None:
    task, sketches = task_of("GMM")
    search = begun(task, sketches, 10)
    found = search.generate_measure_candidates()
    assert found is not None
    assert len({candidate.program_hash for candidate in found}) == 10
    predicted = [score for score in search.predictions if score is not None]
    assert len(predicted) == 9  # the last one was drawn at random
    expected = [1 / seconds(candidate) for candidate in found[:9]]
    assert np.allclose(predicted, expected)
    assert search.statistics.proposed < 30
    by_chance = begun(task, sketches, 10)
    by_chance.eps_greedy = 1.0
    others = by_chance.generate_measure_candidates()
    assert others is not None
    assert max(map(seconds, found[:9])) < np.median([seconds(each) for each in others])


def test_it_learns_what_the_prior_gets_wrong() -> None:
    """Where the fastest are slow in truth, others are predicted to be the best."""
    task, sketches = task_of("GMM")
    search = begun(task, sketches[:1], 20)
    first = search.generate_measure_candidates()
    assert first is not None
    before = search.predictions
    search.notify_runner_results(first, [RunnerResult((1.0,)) for _ in first])
    assert search.generate_measure_candidates() is not None
    after = [score for score in search.predictions if score is not None]
    assert max(after) < min(score for score in before if score is not None) / 2


def test_sketches_without_algebra_are_drawn_from(caplog: pytest.LogCaptureFixture) -> None:
    task, sketches = task_of("GMM", Target("nvidia/geforce-rtx-3080"))
    with caplog.at_level(logging.INFO, "tilewright.test"):
        search = begun(task, sketches[:1], 2)
    assert "sketch 0 is searched by replay: only the prior of CPUs is on arrays" in caplog.text
    assert search.generate_measure_candidates()


def test_bad_settings() -> None:
    with pytest.raises(TuneError) as error:
        ArraySearch(population_size=1)
    assert str(error.value) == (
        "ArraySearch needs a population of at least 2, generations from 0 on and eps_greedy from 0 "
        "to 1, got 1, 3 and 0.1"
    )
