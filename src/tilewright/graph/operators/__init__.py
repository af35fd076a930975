"""The operators of graphs: elementwise ones and broadcasts, shapes, reductions, layers."""

from tilewright.graph.operators import (
    attention,
    elementwise,
    images,
    layers,
    reductions,
    shapes,
    windows,
)

__all__ = ["attention", "elementwise", "images", "layers", "reductions", "shapes", "windows"]
