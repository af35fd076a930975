"""ONNX models as graphs.

loading.py     files, safely: external data stays inside the model's folder, sizes are checked
importer.py    inputs, constants and checks of a model
scope.py       nodes in order
reference.py   nodes that have no converter, for a reference to compute
folding.py     what is known at import is computed at once
functions.py   operators that ONNX defines by others
specialized.py models that are compiled for the shapes that they are called with
converters/    one function an operator, by the version of its operator set
"""

from tilewright.frontend.onnx.context import NodeContext as NodeContext, converts as converts
from tilewright.frontend.onnx.importer import import_onnx as import_onnx
from tilewright.frontend.onnx.specialized import SpecializedModel as SpecializedModel
