"""The libraries that take parts of graphs: onnxruntime and OpenVINO on the CPU, TensorRT on GPUs.

They share one table of patterns: what can be written as ONNX.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.byoc.dataflow_pattern import (
    CallPattern,
    DFPattern,
    PatternMatch,
    is_constant,
    is_op,
    wildcard,
)
from tilewright.byoc.external import ExternalFunction, ExternalPart, external_backends
from tilewright.byoc.onnx_export import can_export, exported_operators, to_onnx
from tilewright.byoc.onnx_sessions import (
    Session,
    onnxruntime_session,
    openvino_session,
    with_constants,
)
from tilewright.byoc.partition import partition
from tilewright.byoc.pattern_table import PatternEntry, register_pattern_table
from tilewright.byoc.tensorrt_session import tensorrt_session
from tilewright.graph.graph import Graph
from tilewright.graph.parser import parse_graph

_SESSIONS: dict[str, Session] = {
    "onnxruntime": onnxruntime_session,
    "openvino": openvino_session,
    "tensorrt": tensorrt_session,
}
_ACTIVATIONS = ("nn.relu", "clip", "sigmoid", "tanh", "nn.gelu", "nn.silu", "nn.leaky_relu")


def onnx_patterns(compiler: str) -> list[PatternEntry]:
    """Products with what follows them, and every operator that can be written as ONNX."""
    entries = [
        PatternEntry(f"{compiler}.{name.partition('.')[2] or name}_bias_act", pattern, is_writable)
        for name in ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense", "nn.matmul", "matmul")
        for pattern in (_with_bias_and_activation(is_op(name)(wildcard(), is_constant())),)
    ]
    for op in exported_operators():
        entries.append(PatternEntry(f"{compiler}.{op}", is_op(op), is_writable))
    return entries


def _with_bias_and_activation(product: CallPattern) -> DFPattern:
    biased = product.optional(lambda x: is_op("add")(x, is_constant()))
    pattern = biased
    for name in _ACTIVATIONS:
        pattern = _activated(name, biased) | pattern
    return pattern


def _activated(name: str, pattern: DFPattern) -> DFPattern:
    return CallPattern(name, (pattern,))


def is_writable(match: PatternMatch) -> bool:
    """True if all nodes can be written as ONNX."""
    return all(map(can_export, match.nodes))


def _add(name: str, session: Session) -> None:
    @external_backends.register(name)
    def run_part(part: ExternalPart) -> ExternalFunction:
        model = with_constants(to_onnx(parse_graph(part.program)), part)
        return session(model.SerializeToString())

    @register_pattern_table(name)
    def table() -> list[PatternEntry]:
        return onnx_patterns(name)


for _name, _session in _SESSIONS.items():
    _add(_name, _session)


def _partitioner(name: str) -> Callable[..., Graph]:
    def partition_for(graph: Graph, min_flop: float = 0.0) -> Graph:
        return partition(graph, name, min_flop)

    partition_for.__name__ = partition_for.__qualname__ = f"partition_for_{name}"
    partition_for.__doc__ = f"A graph whose parts that {name} takes are external nodes."
    return partition_for


partition_for_onnxruntime = _partitioner("onnxruntime")
partition_for_openvino = _partitioner("openvino")
partition_for_tensorrt = _partitioner("tensorrt")
