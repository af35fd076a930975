"""`tune_tir`, `tune_tasks`, `tune_te`, `compile_tir`: tuning from end to end."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import tilewright.cost_model
import tilewright.intrin
import tilewright.search  # noqa: F401  (members of all three register themselves)
from tilewright import te
from tilewright.cost_model.base import CostModel, cost_models
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import Database, databases
from tilewright.errors import TuneError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.measure import Builder, Runner, builders, runners
from tilewright.schedule import Schedule
from tilewright.search.base import SearchStrategy
from tilewright.space.base import SpaceGenerator
from tilewright.target import Target
from tilewright.tune.callbacks import MeasureCallback, default_callbacks
from tilewright.tune.checks import check_can_be_tuned
from tilewright.tune.context import TuneContext, normalize_mod
from tilewright.tune.events import Observer
from tilewright.tune.loggers import close_loggers, run_logger, task_loggers
from tilewright.tune.schedulers import Limits, TaskScheduler, task_schedulers
from tilewright.tune.task import TaskRecord

SpaceLike: TypeAlias = SpaceGenerator | str | Callable[..., Any]
UNLIMITED_TRIALS = 1_000_000


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
    measure_callbacks: Sequence[MeasureCallback] | str = "default",
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
) -> Database:
    """Tune every function of a module; the best schedules are in the database that comes back.

    Give `max_trials_global`, `budget_secs`, or both. Called again with the same database it goes on
    where it stopped: what was measured is not measured again.
    """
    module = as_module(mod)
    check_can_be_tuned(module)
    wanted = Target(target) if not isinstance(target, Target) else target
    chosen = {name: space for name in sorted(module.functions)} | dict(special_space or {})
    names = [name for name in sorted(module.functions) if chosen[name] is not None]
    if not names:
        raise TuneError("there is no task left to tune: special_space skips every function")
    store = _database(database, work_dir, module_equality)
    with ExitStack() as closing:
        if store is not database:
            closing.callback(store.close) if work_dir is None else None
        loggers = task_loggers(work_dir, names)
        closing.callback(close_loggers, loggers)
        tasks = []
        for number, (name, logger) in enumerate(zip(names, loggers, strict=True)):
            func = module.functions[name]
            task_seed = _seed(store, func, wanted, seed, number)
            context = TuneContext(
                func,
                target=wanted,
                space_generator=_copy(chosen[name]),
                search_strategy=_copy(strategy),
                task_name=name,
                rand_state=task_seed,
                num_threads=num_tuning_cores,
                logger=logger,
            )
            tasks.append(TaskRecord(context, 1.0, seed=task_seed))
        return tune_tasks(
            tasks=tasks,
            task_weights=[1.0] * len(tasks),
            work_dir=work_dir,
            max_trials_global=max_trials_global,
            max_trials_per_task=max_trials_per_task,
            num_trials_per_iter=num_trials_per_iter,
            builder=builder,
            runner=runner,
            database=store,
            cost_model=cost_model,
            measure_callbacks=measure_callbacks,
            task_scheduler=task_scheduler,
            module_equality=module_equality,
            budget_secs=budget_secs,
            plateau_trials=plateau_trials,
            observers=observers,
            check=check,
            console=console,
        )


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
    work_dir: str | Path | None = None,
    max_trials_global: int | None = None,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int | None = None,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str = "sqlite",
    cost_model: CostModel | str | None = "gbdt",
    measure_callbacks: Sequence[MeasureCallback] | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    module_equality: str = "structural",
    budget_secs: float | None = None,
    plateau_trials: int | None = None,
    observers: Sequence[Observer] = (),
    check: bool = True,
    console: bool = True,
) -> Database:
    """Tune tasks together; `task_weights` say how often each of them runs in what they are from."""
    if not tasks:
        raise TuneError("there are no tasks to tune")
    if len(tasks) != len(task_weights):
        raise TuneError(f"{len(tasks)} tasks have {len(task_weights)} weights; give one for each")
    limits = _limits(
        max_trials_global, max_trials_per_task, num_trials_per_iter, budget_secs, plateau_trials
    )
    records = [
        task if isinstance(task, TaskRecord) else TaskRecord(task, weight)
        for task, weight in zip(tasks, task_weights, strict=True)
    ]
    logger = run_logger(work_dir, console=console)
    store = _database(database, work_dir, module_equality)
    with ExitStack() as closing:
        closing.callback(close_loggers, [logger])
        workers = records[0].ctx.num_threads
        made_builder = _made(builder, builders, closing, max_workers=workers)
        made_runner = _made(runner, runners, closing)
        for made in (made_builder, made_runner):
            if hasattr(made, "warm_up"):
                made.warm_up()
        scheduler = _scheduler(task_scheduler, logger, observers)
        run = _begin_run(store, records, limits)
        try:
            scheduler.tune(
                records,
                task_weights,
                limits,
                made_builder,
                made_runner,
                _callbacks(measure_callbacks),
                store,
                _cost_model(cost_model, workers),
                check,
            )
        except BaseException:
            store.history.finish_run(run, "interrupted")
            raise
        store.history.finish_run(run)
    return store


def compile_tir(
    database: Database, mod: PrimFunc | IRModule, target: Target | str
) -> Schedule | None:
    """The schedule of the best record of a program, if the database has one for the target."""
    wanted = Target(target) if isinstance(target, str) else target
    return database.query_schedule(normalize_mod(mod), wanted, "main")


# --- options ------------------------------------------------------------------------------------


def _limits(
    total: int | None,
    per_task: int | None,
    per_iter: int | None,
    budget_secs: float | None,
    plateau: int | None,
) -> Limits:
    if total is None and budget_secs is None:
        raise TuneError("say how long to tune: max_trials_global, budget_secs, or both")
    for name, value in (
        ("max_trials_global", total),
        ("max_trials_per_task", per_task),
        ("num_trials_per_iter", per_iter),
        ("budget_secs", budget_secs),
        ("plateau_trials", plateau),
    ):
        if value is not None and value <= 0:
            raise TuneError(f"{name} must be positive, got {value}")
    trials = UNLIMITED_TRIALS if total is None else total
    # Small rounds, so that the search learns early; large ones once it knows enough.
    rounds = min(64, max(8, trials // 4)) if total is not None else 16
    return Limits(trials, per_task or trials, per_iter or rounds, budget_secs, plateau)


def _database(given: Database | str, work_dir: str | Path | None, equality: str) -> Database:
    if isinstance(given, Database):
        return given
    options: dict[str, Any] = {"module_equality": equality}
    if work_dir is None:
        given = "memory"
    elif given == "sqlite":
        options["path"] = Path(work_dir) / "records.db"
    elif given == "json":
        options["work_dir"] = work_dir
    if work_dir is not None:
        Path(work_dir).mkdir(parents=True, exist_ok=True)
    made: Database = databases.create(given, **options)
    return made


def _made(given: Any, family: Any, closing: ExitStack, **options: Any) -> Any:
    if not isinstance(given, str):
        return given
    made = family.create(given, **options)
    if hasattr(made, "close"):
        closing.callback(made.close)
    return made


def _scheduler(
    given: TaskScheduler | str, logger: logging.Logger, observers: Sequence[Observer]
) -> TaskScheduler:
    if isinstance(given, TaskScheduler):
        given.observers.extend(observers)
        return given
    made: TaskScheduler = task_schedulers.create(given, logger=logger, observers=list(observers))
    return made


def _callbacks(given: Sequence[MeasureCallback] | str) -> list[MeasureCallback]:
    if isinstance(given, str):
        if given != "default":
            raise TuneError(f"measure_callbacks is a list or 'default', got {given!r}")
        return default_callbacks()
    return list(given)


def _cost_model(given: CostModel | str | None, cores: int) -> CostModel | None:
    if not isinstance(given, str):
        return given
    if given == "none":
        return None
    options: dict[str, Any] = {}
    if given in ("gbdt", "xgb"):
        options = {"prior": AnalyticPrior(), "num_tuning_cores": cores}
    made: CostModel = cost_models.create(given, **options)
    return made


def _copy(member: Any) -> Any:
    return member.clone() if hasattr(member, "clone") else member


def _seed(store: Database, func: PrimFunc, target: Target, seed: int | None, number: int) -> int:
    """The seed of a task; one that was drawn is kept, so that the next call goes on with it."""
    if seed is not None:
        return random.Random(f"{seed}/{number}").randrange(1, 2**30)
    workload = store.commit_workload(normalize_mod(func))
    key = f"seed/{workload.shash:x}/{target.fingerprint}"
    known = store.load_state(key)
    if isinstance(known, int):
        return known
    drawn = random.SystemRandom().randrange(1, 2**30)
    store.save_state(key, drawn)
    return drawn


def _begin_run(store: Database, tasks: Sequence[TaskRecord], limits: Limits) -> int:
    first = tasks[0]
    run = store.history.begin_run(
        ", ".join(task.ctx.task_name for task in tasks),
        target=str(first.ctx.target),
        seed=first.seed,
        options={"max_trials": limits.max_trials_global, "budget_secs": limits.budget_secs},
    )
    for task in tasks:
        task.run = run
    return run


__all__ = ["compile_tir", "tune_tasks", "tune_te", "tune_tir"]
