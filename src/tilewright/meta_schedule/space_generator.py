"""Space generators."""

from tilewright.space.base import SpaceGenerator as SpaceGenerator
from tilewright.space.generators import (
    DefaultSpace as DefaultSpace,
    PostOrderApply as PostOrderApply,
    ScheduleFn as ScheduleFn,
    SpaceGeneratorUnion as SpaceGeneratorUnion,
    create_space_generator,
)

PySpaceGenerator = SpaceGenerator
create = create_space_generator
