"""The base class of generators: their rules, post-processors and mutators, given or by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from tilewright.errors import TuneError
from tilewright.space import defaults
from tilewright.space.base import Mutator, Postproc, ScheduleRule, SpaceGenerator, TaskContext

# A list, the name of a kind ("llvm", "cuda-tensorcore", ...), or "from-target" (as is None).
RulesLike: TypeAlias = Sequence[ScheduleRule] | str | None
PostprocsLike: TypeAlias = Sequence[Postproc] | str | None
MutatorsLike: TypeAlias = Mapping[Mutator, float] | str | None


class ConfiguredGenerator(SpaceGenerator):
    """A generator with lists of members that may depend on the target."""

    applies_rules: ClassVar[bool] = False  # one that does not works for a task without a target

    def __init__(
        self,
        sch_rules: RulesLike = defaults.FROM_TARGET,
        postprocs: PostprocsLike = defaults.FROM_TARGET,
        mutator_probs: MutatorsLike = defaults.FROM_TARGET,
    ) -> None:
        self.sch_rules: Sequence[ScheduleRule] = ()
        self.postprocs: Sequence[Postproc] = ()
        self.mutator_probs: Mapping[Mutator, float] = {}
        self._by_kind = {  # what is to be filled in, and from which kind it was filled last
            "sch_rules": (sch_rules, defaults.create_schedule_rules),
            "postprocs": (postprocs, defaults.create_postprocs),
            "mutator_probs": (mutator_probs, defaults.create_mutators),
        }
        self._filled_for: str | None = None
        for name, (given, create) in self._by_kind.items():
            if given is not None and given != defaults.FROM_TARGET:
                value: Any = create(given) if isinstance(given, str) else given
                setattr(self, name, value)

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self._fill_from_target(context)
        for member in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            member._initialize_with_tune_context(context)

    def _fill_from_target(self, context: TaskContext) -> None:
        open_lists = [
            (name, create)
            for name, (given, create) in self._by_kind.items()
            if given is None or given == defaults.FROM_TARGET
        ]
        if not open_lists:
            return
        if context.target is None:
            if not self.applies_rules:
                return
            raise TuneError(
                f"{type(self).__name__}: {open_lists[0][0]} is to be chosen by the target, but the "
                "task has none; give TuneContext a target, or the generator its members"
            )
        kind = defaults.kind_of_target(context.target)
        if kind != self._filled_for:
            for name, create in open_lists:
                setattr(self, name, create(kind))
            self._filled_for = kind
