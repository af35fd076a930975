"""Parts of models that other libraries run ("bring your own codegen").

external.py       backends by name, and what they are given
onnx_sessions.py  onnxruntime, OpenVINO and the reference evaluator, which run ONNX models
torch_operators.py  single operators of PyTorch
"""

from tilewright.byoc import (  # register them
    onnx_sessions as _onnx_sessions,
    torch_operators as _torch_operators,
)
from tilewright.byoc.external import (
    ExternalFunction as ExternalFunction,
    ExternalPart as ExternalPart,
    external_backends as external_backends,
    prepare_node as prepare_node,
)

del _onnx_sessions, _torch_operators
