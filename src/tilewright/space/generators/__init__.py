"""Space generators, one file each; importing this package makes them known by name."""

from tilewright.space.generators.create import create_space_generator as create_space_generator
from tilewright.space.generators.default_space import DefaultSpace as DefaultSpace
from tilewright.space.generators.post_order_apply import (
    PostOrderApply as PostOrderApply,
    RuleApplication as RuleApplication,
    RuleStatistics as RuleStatistics,
)
from tilewright.space.generators.schedule_fn import ScheduleFn as ScheduleFn
from tilewright.space.generators.union import SpaceGeneratorUnion as SpaceGeneratorUnion
