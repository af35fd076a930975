"""TensorRT, where it is installed: an ONNX model as an engine on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.byoc.external import ExternalFunction
from tilewright.errors import GraphError
from tilewright.graph.graph import Array


def tensorrt_session(model: bytes) -> ExternalFunction:
    """A model in TensorRT; inputs and outputs travel between the GPU and our memory."""
    try:
        import tensorrt
    except ImportError:
        raise GraphError(
            "running a part of a model with TensorRT needs the package tensorrt and an "
            "NVIDIA GPU: pip install tensorrt 'tilewright[cuda]'"
        ) from None
    try:
        from cuda.bindings import runtime
    except ImportError:
        raise GraphError(
            "running a part of a model with TensorRT needs CUDA: pip install 'tilewright[cuda]'"
        ) from None
    return _Engine(tensorrt, runtime, model)


class _Engine:
    """An engine with memory on the device for each of its tensors."""

    def __init__(self, tensorrt: Any, runtime: Any, model: bytes) -> None:
        self._trt, self._cuda = tensorrt, runtime
        logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        self._engine = _built(tensorrt, logger, model)
        self._context = self._engine.create_execution_context()
        names = [self._engine.get_tensor_name(n) for n in range(self._engine.num_io_tensors)]
        is_input = tensorrt.TensorIOMode.INPUT
        modes = {name: self._engine.get_tensor_mode(name) for name in names}
        self._inputs = [name for name in names if modes[name] == is_input]
        self._outputs = [name for name in names if modes[name] != is_input]
        self._stream = self._check(runtime.cudaStreamCreate())
        self._memory = {name: self._check(runtime.cudaMalloc(self._bytes(name))) for name in names}
        for name, address in self._memory.items():
            self._context.set_tensor_address(name, int(address))

    def __call__(self, arrays: Sequence[Array]) -> Sequence[Array]:
        kinds = self._cuda.cudaMemcpyKind
        for name, array in zip(self._inputs, arrays, strict=True):
            given = np.ascontiguousarray(array)
            self._copy(self._memory[name], given.ctypes.data, given.nbytes,
                       kinds.cudaMemcpyHostToDevice)  # fmt: skip
        if not self._context.execute_async_v3(int(self._stream)):
            raise GraphError("TensorRT could not run its part of the model")
        results = [self._empty(name) for name in self._outputs]
        for name, result in zip(self._outputs, results, strict=True):
            self._copy(result.ctypes.data, self._memory[name], result.nbytes,
                       kinds.cudaMemcpyDeviceToHost)  # fmt: skip
        self._check(self._cuda.cudaStreamSynchronize(self._stream))
        return results

    def _copy(self, to: int, source: int, count: int, kind: Any) -> None:
        self._check(self._cuda.cudaMemcpyAsync(to, source, count, kind, self._stream))

    def _empty(self, name: str) -> Array:
        shape = tuple(self._engine.get_tensor_shape(name))
        return np.empty(shape, self._trt.nptype(self._engine.get_tensor_dtype(name)))

    def _bytes(self, name: str) -> int:
        return max(self._empty(name).nbytes, 1)

    def _check(self, answer: Any) -> Any:
        status, *values = answer
        if int(status) != 0:
            raise GraphError(f"CUDA failed for TensorRT: {status}")
        return values[0] if values else None


def _built(tensorrt: Any, logger: Any, model: bytes) -> Any:
    builder = tensorrt.Builder(logger)
    network = builder.create_network(0)
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse(model):
        said = "; ".join(str(parser.get_error(n)) for n in range(parser.num_errors))
        raise GraphError(f"TensorRT cannot read its part of the model: {said}")
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    if plan is None:
        raise GraphError("TensorRT could not build an engine for its part of the model")
    return tensorrt.Runtime(logger).deserialize_cuda_engine(plan)
