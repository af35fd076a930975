"""Mutators."""

from tilewright.space.base import Mutator as Mutator
from tilewright.space.mutators import (
    MutateCategorical as MutateCategorical,
    MutateComputeLocation as MutateComputeLocation,
    MutateParallel as MutateParallel,
    MutateThreadBinding as MutateThreadBinding,
    MutateTileSize as MutateTileSize,
    MutateUnroll as MutateUnroll,
)

PyMutator = Mutator
create = Mutator.create
