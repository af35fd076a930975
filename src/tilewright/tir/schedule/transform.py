"""Transformations made of several primitives."""

from tilewright.schedule.tensor_tiling import tile_with_tensor_intrin as tile_with_tensor_intrin
