"""`DefaultSearch`: which strategy it chooses, and what it says then."""

from __future__ import annotations

import json
import logging
import re

import pytest

from tilewright.cost_model import GBDTModel, RandomModel
from tilewright.cost_model.base import CostModel
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import MemoryDatabase
from tilewright.records import RunnerResult
from tilewright.schedule import Schedule
from tilewright.search import ArraySearch, DefaultSearch, EvolutionarySearch
from tilewright.target import Target
from tilewright.testing.space_algebra import task_and_sketches
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import create_te_workload

CPU = Target("llvm -mcpu=cascadelake -num-cores 4")
GPU = Target("nvidia/geforce-rtx-3080")


def started(task: SpaceTask, sketches: list[Schedule], model: CostModel) -> DefaultSearch:
    search = DefaultSearch(
        ArraySearch(population_size=64, generations=1, all_sketches=True),
        EvolutionarySearch.frugal(population_size=8, init_min_unmeasured=4),
    )
    search._initialize_with_tune_context(task)
    search.pre_tuning(32, 4, sketches, MemoryDatabase(), model)
    return search


def ours() -> GBDTModel:
    return GBDTModel(prior=AnalyticPrior())


def test_arrays_where_all_sketches_have_an_algebra() -> None:
    task, sketches = task_and_sketches(create_te_workload("GMM", 0), CPU, "tilewright")
    search = started(task, sketches, ours())
    batch = search.generate_measure_candidates()
    assert batch is not None
    assert len(batch) == len(search.predictions) == 4
    assert search.statistics.sent == 4
    state = json.loads(json.dumps(search.state_dict()))
    assert state["strategy"] == "arrays"
    search.notify_runner_results(batch, [RunnerResult((1.0,)) for _ in batch])
    again = started(task, sketches, ours())
    again.load_state_dict(state)
    reissued = again.generate_measure_candidates()
    assert reissued is not None
    assert [each.program_hash for each in reissued] == [each.program_hash for each in batch]


def test_evolution_where_one_has_none(caplog: pytest.LogCaptureFixture) -> None:
    task, sketches = task_and_sketches(create_te_workload("GMM", 0), GPU, "post-order-apply")
    with caplog.at_level(logging.INFO, "tilewright.test"):
        search = started(task, sketches[:1], ours())
    assert "the task is searched by replay: only the prior of CPUs is on arrays" in caplog.text
    assert search.state_dict()["strategy"] == "evolutionary"


def test_evolution_where_structures_differ_too_much(caplog: pytest.LogCaptureFixture) -> None:
    task, sketches = task_and_sketches(create_te_workload("SFM", 0), CPU, "post-order-apply")
    with caplog.at_level(logging.INFO, "tilewright.test"):
        search = started(task, sketches[-1:], ours())
    text = r"the task is searched by replay: programs of sketch 0 have up to \d{3,} structures"
    assert re.search(text, caplog.text)
    assert search.state_dict()["strategy"] == "evolutionary"


@pytest.mark.parametrize("model", [RandomModel(), GBDTModel()], ids=["random", "without a prior"])
def test_other_models_are_asked_by_evolution(model: CostModel) -> None:
    task, sketches = task_and_sketches(create_te_workload("GMM", 0), CPU, "tilewright")
    assert started(task, sketches, model).state_dict()["strategy"] == "evolutionary"


def test_settings_and_clones() -> None:
    search = DefaultSearch(ArraySearch(population_size=64, all_sketches=True))
    assert search.settings()["generations"] == 2
    assert search.settings()["genetic_num_iters"] == 2
    assert search.clone().settings() == search.settings()
    assert DefaultSearch().settings() != DefaultSearch(ArraySearch(generations=1)).settings()
