"""Operators of ATen, said in ours: one function an operator, registered at import."""

from tilewright.frontend.torch.converters import (
    elementwise,
    indexing,
    layers,
    reductions,
    resize,
    shapes,
    windows,
)

__all__ = ["elementwise", "indexing", "layers", "reductions", "resize", "shapes", "windows"]
