"""`tune_tir`, `tune_tasks`, `tune_te`, `compile_tir`: tuning from end to end.

Members of a run (databases, schedulers, models, ...) are made from what a caller names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import tilewright.cost_model
import tilewright.fleet.members
import tilewright.intrin
import tilewright.search  # noqa: F401  (members of all four register themselves)
from tilewright import te
from tilewright.cost_model.base import CostModel, cost_models
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import Database, MemoryDatabase, databases, open_database
from tilewright.features import feature_extractors
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.measure import Builder, ReplayRunner, Runner, builders
from tilewright.records import entry_function
from tilewright.schedule import Schedule
from tilewright.search.base import SearchStrategy
from tilewright.space.layout_free import with_bound_weights
from tilewright.support.files import make_folder
from tilewright.support.member_failures import MemberFailures
from tilewright.target import Target
from tilewright.tune.abilities import make_member
from tilewright.tune.callbacks import MeasureCallback, default_callbacks
from tilewright.tune.checks import check_can_be_tuned, why_not_tuned
from tilewright.tune.context import TuneContext, normalize_mod
from tilewright.tune.event_log import writing_events
from tilewright.tune.events import Observer, show_failures
from tilewright.tune.logs import close_loggers, run_logger, task_loggers
from tilewright.tune.module_tasks import ModuleTasks, SpaceLike, spaces_of
from tilewright.tune.options import TuneOptions
from tilewright.tune.policy import TaskScheduler, task_schedulers
from tilewright.tune.policy.base import weighted
from tilewright.tune.remembered import RememberedFeatures, RememberedPrior
from tilewright.tune.task import TaskRecord

__all__ = ["compile_tir", "tune_tasks", "tune_te", "tune_tir"]

REPLAY = "replay"


def tune_tir(
    mod: PrimFunc | IRModule,
    target: Target | str | Mapping[str, object],
    work_dir: str | Path | None = None,
    max_trials_global: int | None = None,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int | None = None,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str | Path = "sqlite",
    cost_model: CostModel | str | None = "gbdt",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    space: SpaceLike = "tilewright",
    strategy: SearchStrategy | str = "default",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, SpaceLike | None] | None = None,
    budget_secs: float | None = None,
    plateau_trials: int | None = None,
    observers: Sequence[Observer] = (),
    check: bool = True,
    console: bool = True,
    keep_going: bool = False,
    bound: bool = False,
    weights: Mapping[str, float] | None = None,
    rivals: Mapping[str, str] | None = None,
    expected_secs: Mapping[str, float] | None = None,
) -> Database:
    """Tune every function of a module; the best schedules are in the database that comes back.

    Kernels are measured as they are called. With `bound` that means `Module.bind`: weights (the
    arguments of `layout_free_buffers`) are packed once, and their packing is not counted.

    `database` may be a path or a URL as well as a kind; see `open_database`.
    Give `max_trials_global`, `budget_secs`, or both. Called again with the same database it goes on
    where it stopped: what was measured is not measured again. Functions that are equal are tuned
    once. `special_space` gives functions a space of their own; those with None are left out, and
    `weights` say how often functions run in what they are from. Of functions with the same name in
    `rivals` only the fastest will be used. Functions with `expected_secs`, what they take now, are
    looked at when it is their turn, and not at all if they do not matter.
    The same `seed` and the same measurements give the same candidates in the same order; times
    differ from run to run, so that only the first round is sure to be the same.
    With `runner="replay"` nothing is measured: the database says what candidates take, and what is
    found comes back in a new one. An exception in a member of your own (rule, cost model, ...) ends
    the tuning with a `MemberError`; with `keep_going=True` it is shown once, and tuning goes on.
    """
    options = TuneOptions(
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        module_equality=module_equality,
        budget_secs=budget_secs,
        plateau_trials=plateau_trials,
        check=check,
        console=console,
        keep_going=keep_going,
    )
    module = with_bound_weights(as_module(mod)) if bound else as_module(mod)
    check_can_be_tuned(module)
    tasks = ModuleTasks(
        module,
        Target(target) if not isinstance(target, Target) else target,
        spaces=spaces_of(module, space, special_space or {}),
        strategy=strategy,
        num_tuning_cores=num_tuning_cores,
        seed=seed,
        weights=weights or {},
        rivals=rivals or {},
        expected_secs=expected_secs or {},
    )
    store = make_database(database, work_dir, module_equality)
    with ExitStack() as closing:
        if store is not database:
            closing.push(lambda kind, _, __: store.close() if kind is not None else None)
        loggers = task_loggers(work_dir, tasks.names)
        closing.callback(close_loggers, loggers)
        failures = MemberFailures(keep_going=keep_going)
        records = tasks.records(store, loggers, failures)
        return _tune(records, replace(options, database=store), task_scheduler, observers, failures)


def tune_te(
    tensors: Sequence[te.Tensor],
    target: Target | str | Mapping[str, object],
    work_dir: str | Path | None = None,
    max_trials_global: int | None = None,
    **options: Any,
) -> Database:
    """`tune_tir` for a tensor expression, given as its inputs and outputs."""
    return tune_tir(te.create_prim_func(tensors), target, work_dir, max_trials_global, **options)


def tune_tasks(
    *,
    tasks: Sequence[TuneContext | TaskRecord],
    task_weights: Sequence[float],
    task_scheduler: TaskScheduler | str = "gradient",
    observers: Sequence[Observer] = (),
    **options: Any,
) -> Database:
    """Tune tasks together; `task_weights` say how often each of them runs in what they are from.

    The other options are fields of `TuneOptions`, which `tune_tir` has, too.
    """
    records = weighted(tasks, task_weights)
    return _tune(records, TuneOptions(**options), task_scheduler, observers)


def _tune(
    given: Sequence[TaskRecord],
    options: TuneOptions,
    task_scheduler: TaskScheduler | str,
    observers: Sequence[Observer],
    failures: MemberFailures | None = None,
) -> Database:
    """Tune those tasks that can be tuned; the database that the records go into."""
    refusals = [why_not_tuned(task.ctx.task_name, entry_function(task.mod)) for task in given]
    records = [record for record, refusal in zip(given, refusals, strict=True) if refusal is None]
    store = make_database(options.database, options.work_dir, options.module_equality)
    builder, runner = options.builder, options.runner
    if runner == REPLAY:
        # It answers with what the records said when they were made: with the seed of the run that
        # made them the search goes the same way again.
        runner = ReplayRunner(record.as_made() for record in store.get_all_tuning_records())
        store = MemoryDatabase(options.module_equality)
        builder = REPLAY if builder == "local" else builder
    with ExitStack() as closing:
        logger = run_logger(options.work_dir, console=options.console)
        closing.callback(close_loggers, [logger])
        for refusal in filter(None, refusals):
            logger.warning("%s", refusal.reason)
        if not records:
            return store
        workers = records[0].ctx.num_threads
        if not options.console and not observers:
            observers = [show_failures]
        scheduler = make_scheduler(task_scheduler, logger, observers)
        closing.enter_context(writing_events(scheduler.observers, store))
        scheduler.database = store
        scheduler.cost_model = make_cost_model(options.cost_model, workers)
        scheduler.measure_callbacks = make_callbacks(options.measure_callbacks)
        if builder == "local":
            builder = make_member(builder, builders, closing, max_workers=workers)
        scheduler.run(records, replace(options, builder=builder, runner=runner), failures)
    return store


def compile_tir(
    database: Database, mod: PrimFunc | IRModule, target: Target | str
) -> Schedule | None:
    """The schedule of the best record of a program, if the database has one for the target."""
    wanted = Target(target) if isinstance(target, str) else target
    return database.query_schedule(normalize_mod(mod), wanted, "main")


# --- members by name ----------------------------------------------------------------------------

_KIND = re.compile(r"[\w-]+")  # a name; paths and URLs have other characters


def make_database(
    given: Database | str | Path, work_dir: str | Path | None, equality: str
) -> Database:
    """The database itself, that of a path or URL, or one of that kind in `work_dir` or memory."""
    if isinstance(given, Database):
        return given
    if isinstance(given, Path) or not _KIND.fullmatch(given):
        return open_database(given, module_equality=equality)
    options: dict[str, object] = {}
    if work_dir is None and given in ("sqlite", "json"):
        given = "memory"
    elif work_dir is not None and given != "memory":
        make_folder(work_dir)
        options["work_dir"] = work_dir
    return databases.create(given, module_equality=equality, **options)


def make_scheduler(
    given: TaskScheduler | str, logger: logging.Logger, observers: Sequence[Observer]
) -> TaskScheduler:
    """A scheduler with observers."""
    if isinstance(given, TaskScheduler):
        given.observers += [each for each in observers if each not in given.observers]
        return given
    return task_schedulers.create(given, logger=logger, observers=list(observers))


def make_callbacks(
    given: Sequence[MeasureCallback] | MeasureCallback | str,
) -> list[MeasureCallback]:
    """The callbacks, or the default ones."""
    if isinstance(given, MeasureCallback):
        return [given]
    return default_callbacks() if isinstance(given, str) else list(given)


def make_cost_model(given: CostModel | str | None, cores: int) -> CostModel | None:
    """A model by name; ours know a prior, and look at each program once."""
    if not isinstance(given, str):
        return given
    if given == "none":
        return None
    options: dict[str, object] = {}
    if given in ("gbdt", "xgb"):
        options = {
            "extractor": RememberedFeatures(feature_extractors.create("per-store-feature")),
            "prior": RememberedPrior(AnalyticPrior()) if given == "gbdt" else None,
            "num_tuning_cores": cores,
        }
    return cost_models.create(given, **options)
