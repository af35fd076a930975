"""Space generators."""

from tilewright.space.base import SpaceGenerator as SpaceGenerator
from tilewright.space.generators import (
    DefaultSpace as DefaultSpace,
    PostOrderApply as PostOrderApply,
    ScheduleFn as ScheduleFn,
    SpaceGeneratorUnion as SpaceGeneratorUnion,
)

PySpaceGenerator = SpaceGenerator
create = SpaceGenerator.create
