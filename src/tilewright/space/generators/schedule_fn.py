"""`ScheduleFn`: the space is what one function of the user's makes of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.space.base import TaskContext, fork_rand_state, space_generators
from tilewright.space.defaults import FROM_TARGET
from tilewright.space.generators import configured

SchFn: TypeAlias = Callable[[Schedule], "Schedule | Sequence[Schedule] | None"]


class NotASchedule(TuneError, TypeError):
    """A schedule function returned something else."""


@space_generators.register("schedule-fn")
class ScheduleFn(configured.ConfiguredGenerator):
    """`sch_fn` changes the schedule it gets, or returns one schedule or a list of them."""

    def __init__(
        self,
        sch_fn: SchFn,
        sch_rules: configured.RulesLike = FROM_TARGET,
        postprocs: configured.PostprocsLike = FROM_TARGET,
        mutator_probs: configured.MutatorsLike = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn
        self.rand_state = -1

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        super()._initialize_with_tune_context(context)
        self.rand_state = fork_rand_state(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        sch = Schedule(mod, seed=fork_rand_state(self))
        made: Any = self.sch_fn(sch)
        if made is None:
            return [sch]
        schedules = list(made) if isinstance(made, (list, tuple)) else [made]
        for schedule in schedules:
            if not isinstance(schedule, Schedule):
                raise NotASchedule(
                    "a schedule function returns nothing, a schedule or a list of schedules, got "
                    f"{schedule!r}"
                )
        return schedules
