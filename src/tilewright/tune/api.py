"""`tune_tir`, `tune_tasks`, `tune_te`, `compile_tir`: tuning from end to end.

Members of a run (databases, schedulers, models, ...) are made from what a caller names.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

import tilewright.cost_model
import tilewright.intrin
import tilewright.search  # noqa: F401  (members of all three register themselves)
from tilewright import te
from tilewright.cost_model.base import CostModel, cost_models
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import Database, MemoryDatabase, databases
from tilewright.errors import TuneError
from tilewright.features import feature_extractors
from tilewright.ir import IRModule, PrimFunc, as_module, structural_equal
from tilewright.measure import Builder, ReplayRunner, Runner, builders
from tilewright.records import entry_function
from tilewright.schedule import Schedule
from tilewright.search import EvolutionarySearch
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Member, SpaceGenerator
from tilewright.space.generators import DefaultSpace
from tilewright.space.layout_free import with_bound_weights
from tilewright.space.mutators import MutateCategorical
from tilewright.support.files import make_folder
from tilewright.support.member_failures import MemberFailures
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target
from tilewright.tune.abilities import make_member
from tilewright.tune.callbacks import MeasureCallback, default_callbacks
from tilewright.tune.checks import check_can_be_tuned, why_not_tuned
from tilewright.tune.context import TuneContext, normalize_mod
from tilewright.tune.events import Observer, show_failures
from tilewright.tune.logs import close_loggers, run_logger, task_loggers
from tilewright.tune.options import TuneOptions
from tilewright.tune.policy import TaskScheduler, task_schedulers
from tilewright.tune.policy.base import weighted
from tilewright.tune.remembered import RememberedFeatures, RememberedPrior
from tilewright.tune.task import TaskRecord


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
    database: Database | str = "sqlite",
    cost_model: CostModel | str | None = "gbdt",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    space: SpaceLike = "tilewright",
    strategy: SearchStrategy | str = "evolutionary",
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
    wanted = Target(target) if not isinstance(target, Target) else target
    spaces = _spaces(module, space, special_space or {})
    groups = _equal_functions(module, list(spaces))
    store = make_database(database, work_dir, module_equality)
    with ExitStack() as closing:
        if store is not database:
            closing.push(lambda kind, _, __: store.close() if kind is not None else None)
        names = [group[0] for group in groups]
        loggers = task_loggers(work_dir, names)
        closing.callback(close_loggers, loggers)
        seeds = _seeds(store, [module.functions[name] for name in names], wanted, seed)
        failures = MemberFailures(keep_going=keep_going)
        tasks = []
        for name, logger, task_seed in zip(names, loggers, seeds, strict=True):
            context = TuneContext(
                module.functions[name],
                target=wanted,
                space_generator=copy_of(spaces[name]),
                search_strategy=make_strategy(strategy, spaces[name]),
                task_name=name,
                rand_state=task_seed,
                num_threads=num_tuning_cores,
                logger=logger,
                failures=failures,
            )
            roles = (rivals or {}).get(name, ""), (expected_secs or {}).get(name)
            tasks.append(_record(context, (task_seed, seed), *roles))
        totals = [sum((weights or {}).get(name, 1.0) for name in group) for group in groups]
        records = weighted(tasks, totals)
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


# --- the tasks of a module ----------------------------------------------------------------------


def _spaces(
    module: IRModule, space: SpaceLike, special: Mapping[str, SpaceLike | None]
) -> dict[str, SpaceLike]:
    """The space of each function that is to be tuned, by name, in order."""
    for name in special:
        if name not in module.functions:
            hint = did_you_mean(name, module.functions)
            raise TuneError(f"special_space names a function {name!r} that is not there{hint}")
    chosen = {name: special.get(name, space) for name in sorted(module.functions)}
    spaces = {name: own for name, own in chosen.items() if own is not None}
    if not spaces:
        raise TuneError("there is no task left to tune: special_space leaves out every function")
    return spaces


def _equal_functions(module: IRModule, names: Sequence[str]) -> list[list[str]]:
    """Names in groups of equal functions; they share a task, weighted by their number."""
    groups: list[tuple[IRModule, list[str]]] = []
    for name in names:
        alone = normalize_mod(module.functions[name])
        for known, members in groups:
            if structural_equal(known, alone):
                members.append(name)
                break
        else:
            groups.append((alone, [name]))
    return [members for _, members in groups]


def _record(
    context: TuneContext, seeds: tuple[int, int | None], computes: str, secs: float | None
) -> TaskRecord:
    """A task with the seed that was drawn for it, and the one that the user gave."""
    own, asked = seeds
    return TaskRecord(context, 1.0, own, asked, computes=computes, expected_secs=secs)


def _seeds(
    store: Database, funcs: Sequence[PrimFunc], target: Target, seed: int | None
) -> list[int]:
    """A seed for each task; those that were drawn are kept, so that the next call goes on."""
    if seed is not None:
        drawn = np.random.RandomState(seed).randint(1, 2**30, len(funcs))
        return [int(each) for each in drawn]
    seeds = []
    for func in funcs:
        workload = store.commit_workload(normalize_mod(func))
        key = f"seed/{workload.shash:x}/{target.fingerprint}"
        known = store.load_state(key)
        if not isinstance(known, int):
            known = random.SystemRandom().randrange(1, 2**30)
            store.save_state(key, known)
        seeds.append(known)
    return seeds


__all__ = ["compile_tir", "tune_tasks", "tune_te", "tune_tir"]


SpaceLike: TypeAlias = SpaceGenerator | str | Callable[..., object]
REPLAY = "replay"
MemberT = TypeVar("MemberT")


def make_database(given: Database | str, work_dir: str | Path | None, equality: str) -> Database:
    """The database itself, or one of that kind in the directory; in memory without one."""
    if isinstance(given, Database):
        return given
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


def make_strategy(given: SearchStrategy | str, space: object) -> SearchStrategy | str:
    """A strategy for one task; the usual one suits itself to the space.

    Our own sketches leave few decisions open, and most of what they lead to is good: a small
    population that evolves twice finds as much as a large one, in a fraction of the time.
    """
    if given == "evolutionary" and _has_own_sketches(space):
        return EvolutionarySearch.frugal(
            population_size=48, genetic_num_iters=2, init_min_unmeasured=8
        )
    return copy_of(given)


def _has_own_sketches(space: object) -> bool:
    """Are the decisions of a space choices among a few, as ours are?"""
    if space == "tilewright" or isinstance(space, DefaultSpace):
        return True
    mutators = space.mutator_probs if isinstance(space, SpaceGenerator) else {}
    return bool(mutators) and all(isinstance(each, MutateCategorical) for each in mutators)


def copy_of(member: MemberT) -> MemberT:
    """A member for one task; names and functions are shared."""
    return member.clone() if isinstance(member, Member) else member
