"""Models, features, mutators, strategies and schedulers, used as scripts for TVM use them."""

from __future__ import annotations

import importlib
import random
import re
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import meta_schedule as ms
from tilewright.errors import TuneError
from tilewright.meta_schedule.module_paths import FILES
from tilewright.meta_schedule.testing import space_generation
from tilewright.schedule import Schedule, Trace
from tilewright.target import Target
from tilewright.testing.dummy_object import DummyBuilder, DummyMutator, DummyRunner
from tilewright.testing.small_search import MODULE, matmul, tile_all, tile_two

CPU = Target("llvm -num-cores=2")


def candidates(count: int) -> list[Any]:
    return [ms.MeasureCandidate(Schedule(MODULE), ()) for _ in range(count)]


def results(count: int) -> list[Any]:
    return [ms.runner.RunnerResult(list(np.random.rand(4) + 1e-6), None) for _ in range(count)]  # type: ignore[arg-type]


# --- paths and texts ----------------------------------------------------------------------------


@pytest.mark.parametrize("family", FILES)
def test_paths_of_tvm(family: str) -> None:
    for name in FILES[family]:
        module = importlib.import_module(f"tilewright.meta_schedule.{family}.{name}")
        assert module is getattr(ms, family) is getattr(module, name)


def test_a_path_of_tvm_may_be_imported_first() -> None:
    code = (
        "from tilewright.meta_schedule.runner.local_runner import default_alloc_argument\n"
        "import tilewright.meta_schedule.testing.te_workload as te_workload\n"
        "from tilewright.meta_schedule.testing.space_generation import check_sketches\n"
        "from tilewright.meta_schedule.cost_model.xgb_model import PackSum, XGBConfig\n"
        "from tilewright.meta_schedule.logging import get_loggers_from_work_dir\n"
        "te_workload.create_te_workload('GMM', 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


METHODS: dict[Any, tuple[str, ...]] = {
    ms.cost_model.PyCostModel: ("load", "save", "update", "predict"),
    ms.feature_extractor.PyFeatureExtractor: ("extract_from",),
    ms.measure_callback.PyMeasureCallback: ("apply",),
    ms.mutator.PyMutator: ("apply",),
    ms.postproc.PyPostproc: ("apply",),
    ms.schedule_rule.PyScheduleRule: ("apply",),
}


@pytest.mark.parametrize("contract", METHODS)
def test_derived_objects_say_what_they_are(contract: Any) -> None:
    methods = dict.fromkeys(METHODS[contract], lambda *args: None)
    made = ms.derived_object(type("Mine", (contract,), methods))()
    assert re.fullmatch(r"meta_schedule\.Mine\(0x[0-9a-f]+\)", str(made))
    assert made._outer() is made

    named = ms.derived_object(type("Mine", (contract,), {**methods, "__str__": lambda self: "me"}))
    assert str(named()) == "me"


@pytest.mark.parametrize("family", sorted(FILES))
def test_kinds_that_nobody_knows(family: str) -> None:
    with pytest.raises(ValueError, match="nobody"):
        getattr(ms, family).create("nobody")


def test_makers_pass_arguments_on() -> None:
    features = ms.FeatureExtractor.create("per-store-feature", 3, 7)
    assert isinstance(features, ms.feature_extractor.PerStoreFeature)
    assert (features.buffers_per_store, features.arith_intensity_curve_num_samples) == (3, 7)
    scheduler = ms.TaskScheduler.create("gradient", 0.5)
    assert isinstance(scheduler, ms.task_scheduler.GradientBased)
    assert scheduler.alpha == 0.5
    runner = ms.Runner.create("local", 12.0)
    assert isinstance(runner, ms.runner.LocalRunner)
    assert runner.timeout_sec == 12.0


# --- models and features ------------------------------------------------------------------------


def test_a_model_learns_from_tasks_without_a_program(tmp_path: Path) -> None:
    extractor = ms.feature_extractor.RandomFeatureExtractor()
    model = ms.cost_model.XGBModel(extractor=extractor, num_warmup_samples=10)
    for _ in range(3):
        model.update(ms.TuneContext(), candidates(10), results(10))
    old, path = model.data, str(tmp_path / "model")
    assert model.data_size == 30
    model.save(path)
    state = extractor.random_state
    first = model.predict(ms.TuneContext(), candidates(20))
    extractor.random_state = state
    model.load(path)
    again = model.predict(ms.TuneContext(), candidates(20))
    assert (first == again).all()
    assert list(old) == list(model.data)
    for key, group in model.data.items():
        assert key == group.group_hash
        assert (group.costs == old[key].costs).all()
        pairs = zip(group.features, old[key].features, strict=True)
        assert all((rows == before).all() for rows, before in pairs)


def test_what_a_model_told_does_not_change() -> None:
    extractor = ms.feature_extractor.RandomFeatureExtractor()
    model = ms.cost_model.XGBModel(extractor=extractor)
    model.update(ms.TuneContext(), candidates(3), results(3))
    told = model.data
    model.update(ms.TuneContext(), candidates(3), results(3))
    assert [len(group.costs) for group in told.values()] == [3]
    assert [len(group.features) for group in told.values()] == [3]


@pytest.mark.parametrize("name", ["per-store-feature", "random"])
def test_features_as_plain_arrays(name: str) -> None:
    extractor = ms.feature_extractor.create(name)
    (features,) = extractor.extract_from(ms.TuneContext(target=CPU), candidates(1))
    plain = features.numpy()  # type: ignore[attr-defined]
    assert type(plain) is np.ndarray
    assert (plain == features).all()


# --- mutators and search spaces -----------------------------------------------------------------


def test_mutators_need_no_seed() -> None:
    sch = Schedule(MODULE)
    tile_all(sch)
    mutate: Any = ms.mutator.MutateTileSize()
    made = {str(mutate.apply(sch.trace)) for _ in range(30)}
    assert len(made) > 1
    assert len({str(mutate.apply(sch.trace, 7)) for _ in range(5)}) == 1


def test_mutators_of_ones_own_get_a_seed() -> None:
    @ms.derived_object
    class Mine(ms.mutator.PyMutator):
        def apply(self, trace: Trace, _: int) -> Any:
            return _

    mine: Any = Mine()
    assert len({mine.apply(None) for _ in range(9)}) > 1
    assert mine.apply(None, 3) == 3
    assert mine.clone().apply(None, seed=4) == 4


def test_a_function_needs_no_target() -> None:
    space = ms.space_generator.ScheduleFn(tile_all)
    context = ms.TuneContext(MODULE, space_generator=space)
    assert len(context.generate_design_space()) == 1
    assert (list(space.sch_rules), list(space.postprocs)) == ([], [])
    union = ms.space_generator.SpaceGeneratorUnion([space, space])
    assert len(ms.TuneContext(MODULE, space_generator=union).generate_design_space()) == 2


def test_rules_need_a_target() -> None:
    with pytest.raises(TuneError, match="PostOrderApply: sch_rules is to be chosen by the target"):
        ms.TuneContext(MODULE, space_generator="post-order-apply")


def test_sketches_are_equal_whatever_their_symbol() -> None:
    rule = ms.schedule_rule.MultiLevelTiling(structure="SRS")
    sketches = space_generation.generate_design_space("llvm", matmul, CPU, ms.ScheduleRule, [rule])
    decisions = [space_generation.decisions_of(each) for each in sketches]
    expected = [each.mod["main"].with_attr("global_symbol", "other") for each in sketches]
    space_generation.check_sketches(matmul, sketches, expected, decisions)
    with pytest.raises(AssertionError, match="no sketch is the expected module 0"):
        space_generation.check_sketches(matmul, sketches, [matmul], decisions)


# --- strategies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["replay-func", "replay-trace"])
def test_replays_without_a_target(strategy: str) -> None:
    context = ms.TuneContext(
        MODULE,
        space_generator=ms.space_generator.ScheduleFn(tile_all, postprocs=[]),
        search_strategy=strategy,
    )
    search = context.search_strategy
    assert search is not None
    search.pre_tuning(
        max_trials=20, num_trials_per_iter=7, design_spaces=context.generate_design_space()
    )
    assert sizes_of_rounds(search) == [7, 7, 6]


def sizes_of_rounds(search: Any) -> list[int]:
    sizes = []
    while (found := search.generate_measure_candidates()) is not None:
        sizes.append(len(found))
        search.notify_runner_results(found, results(len(found)))
    search.post_tuning()
    return sizes


def evolution(sch_fn: Any, **settings: Any) -> Any:
    small = {"population_size": 5, "genetic_num_iters": 3, "eps_greedy": 0.9, **settings}
    context = ms.TuneContext(
        MODULE,
        target=CPU,
        space_generator=ms.space_generator.ScheduleFn(
            sch_fn, sch_rules=[], postprocs=[], mutator_probs={DummyMutator(): 1.0}
        ),
        search_strategy=ms.search_strategy.EvolutionarySearch(**small),
    )
    search = context.search_strategy
    assert search is not None
    search.pre_tuning(
        max_trials=2000,
        num_trials_per_iter=10,
        design_spaces=context.generate_design_space(),
        database=ms.database.MemoryDatabase(),
        cost_model=ms.cost_model.RandomModel(seed=1),
    )
    return search


def test_evolution_finds_a_small_space() -> None:
    sizes = sizes_of_rounds(evolution(tile_two))
    assert sum(sizes) == 25
    assert sizes_of_rounds(evolution(lambda sch: sch)) == [1, 0, 0, 0, 0]


def test_the_parts_of_a_round_of_evolution() -> None:
    search = evolution(tile_all, init_min_unmeasured=12)
    population = search.sample_init_population(6)
    assert len(population) == 12
    assert all(isinstance(each, Schedule) for each in population)
    best = search.evolve_with_cost_model(population, 7)
    assert 0 < len(best) <= 7
    assert len({str(each.trace) for each in best}) == len(best)
    search.post_tuning()
    with pytest.raises(TuneError, match="call pre_tuning before sample_init_population"):
        search.sample_init_population(6)


# --- task schedulers ----------------------------------------------------------------------------


def tasks() -> list[Any]:
    return [
        ms.TuneContext(
            MODULE,
            target=CPU,
            space_generator=tile_all,
            search_strategy=ms.search_strategy.ReplayTrace(),
            task_name=name,
            rand_state=seed,
        )
        for seed, name in ((1, "first"), (2, "second"))
    ]


@ms.derived_object
class Chance(ms.task_scheduler.PyTaskScheduler):
    """Takes tasks at random, and looks at what it may look at."""

    def next_task_id(self) -> int:
        outer = self._outer()  # type: ignore[attr-defined]
        alive = [n for n, task in enumerate(outer.tasks_) if not task.is_terminated]
        assert len(alive) == self.remaining_tasks_
        if not alive:
            return -1
        chosen = random.choice(alive)
        assert self.tasks_[chosen].runner_futures is None
        self.touch_task(chosen)
        return chosen

    def join_running_task(self, task_id: int) -> Sequence[Any]:
        found = super().join_running_task(task_id)
        self.joined: list[int] = [*getattr(self, "joined", []), len(found)]
        return found


def test_a_scheduler_of_ones_own() -> None:
    scheduler, database = Chance(), ms.database.MemoryDatabase()
    callbacks = [ms.measure_callback.AddToDatabase()]
    arguments = (tasks(), [1.0, 1.0], 12, 6, 3, DummyBuilder(), DummyRunner(), callbacks, database)
    scheduler.tune(*arguments, None)
    assert scheduler.joined == [3, 3, 3, 3]
    assert (len(database), scheduler.remaining_tasks_) == (12, 0)
    assert scheduler.database_ is database
    assert (scheduler.cost_model_, scheduler.measure_callbacks_) == (None, callbacks)


def test_a_scheduler_is_freed_at_once() -> None:
    scheduler = Chance()
    known = weakref.ref(scheduler)
    del scheduler
    assert known() is None


def test_a_scheduler_may_end_a_task() -> None:
    @ms.derived_object
    class Impatient(ms.task_scheduler.PyTaskScheduler):
        def next_task_id(self) -> int:
            if self.tasks_[0].trials:
                self.terminate_task(0)
            return -1 if self.tasks_[0].is_terminated else 0

    database = ms.database.MemoryDatabase()
    callbacks = [ms.measure_callback.AddToDatabase()]
    members = (DummyBuilder(), DummyRunner(), callbacks, database, None)
    Impatient().tune(tasks()[:1], [1.0], 12, 6, 3, *members)
    assert len(database) == 3
