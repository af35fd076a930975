"""Makes tasks of the functions of a module: with spaces, strategies, seeds and weights."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np

from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.ir import IRModule, structural_equal
from tilewright.search import DefaultSearch, EvolutionarySearch
from tilewright.search.base import SearchStrategy
from tilewright.space.base import Member, SpaceGenerator
from tilewright.space.generators import DefaultSpace
from tilewright.space.mutators import MutateCategorical
from tilewright.support.member_failures import MemberFailures
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target
from tilewright.tune.context import TuneContext, normalize_mod
from tilewright.tune.policy.base import weighted
from tilewright.tune.task import TaskRecord

SpaceLike: TypeAlias = SpaceGenerator | str | Callable[..., object]
MemberT = TypeVar("MemberT")


@dataclass(frozen=True)
class ModuleTasks:
    """The functions of a module that are to be tuned, and how."""

    module: IRModule
    target: Target
    spaces: Mapping[str, SpaceLike]  # by function; others are left out
    strategy: SearchStrategy | str
    num_tuning_cores: int | str
    seed: int | None
    weights: Mapping[str, float]
    rivals: Mapping[str, str]
    expected_secs: Mapping[str, float]

    @property
    def names(self) -> list[str]:
        """The names of the tasks, which are those of the first of equal functions."""
        return [group[0] for group in self._groups]

    def records(
        self, store: Database, loggers: Sequence[logging.Logger], failures: MemberFailures
    ) -> list[TaskRecord]:
        """The tasks, each as often as the functions run that it stands for."""
        tasks = [
            self._record(name, logger, seed, failures)
            for name, logger, seed in zip(self.names, loggers, self._seeds(store), strict=True)
        ]
        return weighted(tasks, [sum(self.weights.get(n, 1.0) for n in g) for g in self._groups])

    def _record(
        self, name: str, logger: logging.Logger, seed: int, failures: MemberFailures
    ) -> TaskRecord:
        space = self.spaces[name]
        context = TuneContext(
            self.module.functions[name],
            target=self.target,
            space_generator=copy_of(space),
            search_strategy=make_strategy(self.strategy, space),
            task_name=name,
            rand_state=seed,
            num_threads=self.num_tuning_cores,
            logger=logger,
            failures=failures,
        )
        return TaskRecord(
            context,
            1.0,
            seed,
            self.seed,
            computes=self.rivals.get(name, ""),
            expected_secs=self.expected_secs.get(name),
        )

    @cached_property
    def _groups(self) -> list[list[str]]:
        """Names in groups of equal functions; they share a task."""
        groups: list[tuple[IRModule, list[str]]] = []
        for name in self.spaces:
            alone = normalize_mod(self.module.functions[name])
            for known, members in groups:
                if structural_equal(known, alone):
                    members.append(name)
                    break
            else:
                groups.append((alone, [name]))
        return [members for _, members in groups]

    def _seeds(self, store: Database) -> list[int]:
        """A seed for each task; those that were drawn are kept, so that the next call goes on."""
        if self.seed is not None:
            drawn = np.random.RandomState(self.seed).randint(1, 2**30, len(self.names))
            return [int(each) for each in drawn]
        seeds = []
        for name in self.names:
            workload = store.commit_workload(normalize_mod(self.module.functions[name]))
            key = f"seed/{workload.shash:x}/{self.target.fingerprint}"
            known = store.load_state(key)
            if not isinstance(known, int):
                known = random.SystemRandom().randrange(1, 2**30)
                store.save_state(key, known)
            seeds.append(known)
        return seeds


def spaces_of(
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


def make_strategy(given: SearchStrategy | str, space: object) -> SearchStrategy | str:
    """A strategy for one task; the usual one suits itself to the space.

    Our own sketches leave few decisions open, and most of what they lead to is good: a small
    population that evolves twice finds as much as a large one, in a fraction of the time.
    """
    if given in ("default", "evolutionary") and _has_own_sketches(space):
        small = EvolutionarySearch.frugal(
            population_size=48, genetic_num_iters=2, init_min_unmeasured=8
        )
        return small if given == "evolutionary" else DefaultSearch(evolutionary=small)
    return copy_of(given)


def _has_own_sketches(space: object) -> bool:
    """True if the decisions of a space are choices among a few, as ours are."""
    if space == "tilewright" or isinstance(space, DefaultSpace):
        return True
    mutators = space.mutator_probs if isinstance(space, SpaceGenerator) else {}
    return bool(mutators) and all(isinstance(each, MutateCategorical) for each in mutators)


def copy_of(member: MemberT) -> MemberT:
    """A member for one task; names and functions are shared."""
    return member.clone() if isinstance(member, Member) else member
