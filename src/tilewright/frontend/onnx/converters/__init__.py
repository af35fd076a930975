"""Operators of ONNX, said in ours."""

from tilewright.frontend.onnx.converters import (
    control_flow,
    convolutions,
    elementwise,
    images,
    indexing,
    norms,
    pools,
    products,
    quantized,
    quantized_contrib,
    recurrent,
    reductions,
    resize,
    sequences,
    shapes,
    signal,
)

__all__ = [
    "control_flow",
    "convolutions",
    "elementwise",
    "images",
    "indexing",
    "norms",
    "pools",
    "products",
    "quantized",
    "quantized_contrib",
    "recurrent",
    "reductions",
    "resize",
    "sequences",
    "shapes",
    "signal",
]
