"""Space generators."""

from tilewright.space.base import SpaceGenerator as SpaceGenerator
from tilewright.space.generators import *  # noqa: F403 - a list of names

PySpaceGenerator = SpaceGenerator
create = SpaceGenerator.create
