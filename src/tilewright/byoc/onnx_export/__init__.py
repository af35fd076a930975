"""Graphs as ONNX models, for libraries that run those.

writer.py     the model, node by node, and the table of operators
products.py   convolutions, products, norms, attention
elements.py   what works on elements, and reductions
shapes.py     what moves elements
"""

from tilewright.byoc.onnx_export import (  # register what they write
    elements as _elements,
    products as _products,
    shapes as _shapes,
)
from tilewright.byoc.onnx_export.writer import (
    can_export as can_export,
    exported_operators as exported_operators,
    to_onnx as to_onnx,
)

del _elements, _products, _shapes
