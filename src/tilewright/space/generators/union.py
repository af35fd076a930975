"""`SpaceGeneratorUnion`: the sketches of several generators, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tilewright.errors import TuneError
from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.space.base import SpaceGenerator, TaskContext, space_generators
from tilewright.space.defaults import FROM_TARGET
from tilewright.space.generators import configured
from tilewright.support.member_failures import MemberFailures


@space_generators.register("union")
class SpaceGeneratorUnion(configured.ConfiguredGenerator):
    """The sketches of all.

    A generator of ours that raises is logged and left out as long as another one has sketches, as
    one of the user's own is if the task keeps going.
    """

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: configured.RulesLike = FROM_TARGET,
        postprocs: configured.PostprocsLike = FROM_TARGET,
        mutator_probs: configured.MutatorsLike = FROM_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        if not space_generators:
            raise TuneError("SpaceGeneratorUnion needs at least one space generator")
        self.space_generators = list(space_generators)
        self.logger = logging.getLogger(__name__)
        self.failures = MemberFailures()

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        super()._initialize_with_tune_context(context)
        self.logger, self.failures = context.logger, context.failures
        for generator in self.space_generators:
            generator._initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        sketches: list[Schedule] = []
        failures: list[Exception] = []
        for generator in self.space_generators:
            try:
                sketches.extend(generator.generate_design_space(mod))
            except Exception as error:
                name = type(generator).__name__
                self.failures.take(f"space generator {name}", error, generator)
                failures.append(error)
                self.logger.warning(
                    "space generator %s failed and is left out: %s: %s",
                    name,
                    type(error).__name__,
                    error,
                )
        if failures and not sketches:
            raise failures[0]
        return sketches
