"""Parts of models that other libraries run ("bring your own codegen").

external.py          backends by name, and what they are given
torch_operators.py   single operators of PyTorch
onnx_sessions.py     onnxruntime, OpenVINO and the reference evaluator, which run ONNX models
tensorrt_session.py  TensorRT, which does so on GPUs
onnx_export/         graphs as ONNX models
dataflow_pattern.py  patterns of nodes
pattern_table.py     the patterns that a backend takes
regions.py           matches joined to regions, without cycles
partition.py         regions cut out as external nodes
libraries.py         the backends that run parts of graphs, and their patterns
"""

from tilewright.byoc import (  # register them
    onnx_sessions as _onnx_sessions,
    torch_operators as _torch_operators,
)
from tilewright.byoc.dataflow_pattern import (
    is_constant as is_constant,
    is_op as is_op,
    wildcard as wildcard,
)
from tilewright.byoc.external import (
    ExternalFunction as ExternalFunction,
    ExternalPart as ExternalPart,
    external_backends as external_backends,
    prepare_node as prepare_node,
    prepare_part as prepare_part,
)
from tilewright.byoc.libraries import (
    partition_for_onnxruntime as partition_for_onnxruntime,
    partition_for_openvino as partition_for_openvino,
    partition_for_tensorrt as partition_for_tensorrt,
)
from tilewright.byoc.onnx_export import to_onnx as to_onnx
from tilewright.byoc.partition import external_nodes as external_nodes, partition as partition
from tilewright.byoc.pattern_table import (
    get_pattern_table as get_pattern_table,
    register_pattern_table as register_pattern_table,
)

del _onnx_sessions, _torch_operators
