"""Contracts of the members of a search space: rules, post-processors, mutators, generators.

Every contract can be met by a plain Python class. `_initialize_with_tune_context` is called once
before a member is used, and again whenever its task starts anew.
"""

from __future__ import annotations

import copy
import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from typing_extensions import Self

from tilewright.ir import IRModule
from tilewright.schedule import BlockRV, Schedule, Trace
from tilewright.schedule.trace.random import RandomEngine, normalize_seed
from tilewright.support.member_failures import MemberFailures
from tilewright.support.plugins import Family
from tilewright.target import Target


@runtime_checkable
class HasRandState(Protocol):
    """A task or member with a random engine, kept as the number that is its state."""

    rand_state: int


def fork_rand_state(holder: HasRandState) -> int:
    """A seed for another member, so that one seed decides a whole search.

    The holder's own engine moves on by one draw.
    """
    engine = RandomEngine(holder.rand_state)
    seed = engine.fork_seed()
    holder.rand_state = engine.state
    return seed


class TaskContext(Protocol):
    """The task that members work for, as far as they may know it."""

    mod: IRModule | None
    target: Target | None
    num_threads: int
    rand_state: int
    task_name: str
    logger: logging.Logger
    failures: MemberFailures

    @property
    def space_generator(self) -> SpaceGenerator | None: ...


# What `create` of a contract answers: the members that a kind of target gets by default. The lists
# name members of all kinds, and each member knows its contract: so they are put in here from above
# (`space/defaults.py`, `space/generators/create.py`).
default_makers: dict[str, Callable[..., Any]] = {}


class Member:
    """What all members share: they may look at the task, and they can be cloned."""

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        """Take what is needed from the task; most members need nothing."""

    def clone(self) -> Self:
        """An independent member with the same settings."""
        return copy.deepcopy(self)


class NotApplied(list[Schedule]):
    """The answer of a rule that leaves a block alone: the schedule as it was, and the reason."""

    def __init__(self, sch: Schedule, reason: str) -> None:
        super().__init__([sch])
        self.reason = reason


class ScheduleRule(Member, ABC):
    """Turns a schedule into the schedules that treat one block in one way or another."""

    takes_empty: ClassVar[bool] = False  # also blocks with an axis of length zero

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules to go on with.

        A rule that is not meant for the block returns `NotApplied(sch, "it is not a reduction")`,
        which `tilewright space why` shows, or just `[sch]`.
        """

    @staticmethod
    def create(kind: str) -> list[ScheduleRule]:
        """The default rules of a kind of target: "llvm", "cuda", "cuda-tensorcore", ..."""
        made: list[ScheduleRule] = default_makers["schedule rule"](kind)
        return made


class Postproc(Member, ABC):
    """Finishes a candidate, or rejects it."""

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """False, or a `ScheduleError`: the candidate is rejected."""

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """The default post-processors of a kind of target."""
        made: list[Postproc] = default_makers["post-processor"](kind)
        return made


class Mutator(Member, ABC):
    """Moves a decision of a trace.

    Whoever calls `apply` without a seed gets a random one, whatever a subclass asks for.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "apply" in vars(cls):
            cls.apply = _with_any_seed(cls.apply)  # type: ignore[method-assign]

    @abstractmethod
    def apply(self, trace: Trace, seed: int) -> Trace | None:
        """A trace that differs in a decision, without its post-processing; None: impossible.

        `seed` is a state of the random engine (`schedule.random`), all randomness comes from it.
        """

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """The default mutators of a kind of target, and how likely each is chosen."""
        made: dict[Mutator, float] = default_makers["mutator"](kind)
        return made


def _with_any_seed(apply: Callable[..., Trace | None]) -> Callable[..., Trace | None]:
    @functools.wraps(apply)
    def seeded(self: Mutator, trace: Trace, seed: int = -1) -> Trace | None:
        return apply(self, trace, normalize_seed(seed) if seed == -1 else seed)

    return seeded


class SpaceGenerator(Member, ABC):
    """Makes the sketches of a task: schedules whose traces have open decisions."""

    sch_rules: Sequence[ScheduleRule]
    postprocs: Sequence[Postproc]
    mutator_probs: Mapping[Mutator, float]
    # Whether a search measures the program as it is, and its schedule without a search, first.
    has_baselines: ClassVar[bool] = False

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The sketches."""

    def generate_wider_space(self, mod: IRModule) -> list[Schedule]:
        """Further sketches, for searches that go on when others end; by default there are none.

        It is called after `generate_design_space`; post-processors and mutators stay the same.
        """
        return []

    @staticmethod
    def create(
        kind: str | Callable[..., Any] = "post-order-apply", *args: Any, **kwargs: Any
    ) -> SpaceGenerator:
        """A generator from its name, a kind of target, or a schedule function."""
        made: SpaceGenerator = default_makers["space generator"](kind, *args, **kwargs)
        return made


schedule_rules: Family[ScheduleRule] = Family("schedule rule", "tilewright.schedule_rule")
postprocs: Family[Postproc] = Family("post-processor", "tilewright.postproc")
mutators: Family[Mutator] = Family("mutator", "tilewright.mutator")
space_generators: Family[SpaceGenerator] = Family("space generator", "tilewright.space_generator")
