"""Mutators, one file each; importing this package makes them known by name."""

from tilewright.space.mutators.mutate_categorical import MutateCategorical as MutateCategorical
from tilewright.space.mutators.mutate_compute_location import (
    MutateComputeLocation as MutateComputeLocation,
)
from tilewright.space.mutators.mutate_parallel import MutateParallel as MutateParallel
from tilewright.space.mutators.mutate_thread_binding import (
    MutateThreadBinding as MutateThreadBinding,
)
from tilewright.space.mutators.mutate_tile_size import MutateTileSize as MutateTileSize
from tilewright.space.mutators.mutate_unroll import MutateUnroll as MutateUnroll
