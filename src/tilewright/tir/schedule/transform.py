"""Transformations made of several primitives."""

from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin as tile_with_tensor_intrin
