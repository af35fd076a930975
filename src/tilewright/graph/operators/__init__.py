"""The operators of graphs: elementwise ones and broadcasts, shapes, reductions, layers."""

from tilewright.graph.operators import (
    attention,
    elementwise,
    images,
    layers,
    quantized,
    reductions,
    shapes,
    transformed_winograd as transformed_winograd,
    windows,
)

__all__ = [
    "attention",
    "elementwise",
    "images",
    "layers",
    "quantized",
    "reductions",
    "shapes",
    "windows",
]
