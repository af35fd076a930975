"""Mutators."""

from tilewright.space.base import Mutator as Mutator
from tilewright.space.mutators import *  # noqa: F403 - a list of names

PyMutator = Mutator
create = Mutator.create
