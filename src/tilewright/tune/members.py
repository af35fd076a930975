"""Makes the members of a run from what a caller names: databases, schedulers, models, ..."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from tilewright.cost_model.base import CostModel, cost_models
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import Database, databases
from tilewright.features import feature_extractors
from tilewright.measure import ReplayRunner
from tilewright.search import EvolutionarySearch
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Member, SpaceGenerator
from tilewright.space.generators import DefaultSpace
from tilewright.space.mutators import MutateCategorical
from tilewright.support.files import make_folder
from tilewright.tune.callbacks import MeasureCallback, default_callbacks
from tilewright.tune.events import Observer
from tilewright.tune.policy import TaskScheduler, task_schedulers
from tilewright.tune.remembered import RememberedFeatures, RememberedPrior

SpaceLike: TypeAlias = SpaceGenerator | str | Callable[..., Any]
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


def replay_runner(database: Database) -> ReplayRunner:
    """A runner that answers with what the records of a database said when they were made.

    With the seed of the run that made the records the search goes the same way again.
    """
    return ReplayRunner(record.as_made() for record in database.get_all_tuning_records())


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
