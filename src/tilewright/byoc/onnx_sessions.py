"""Libraries that run ONNX models: each takes a model as bytes and gives a function of arrays."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tilewright.byoc.external import ExternalFunction, ExternalPart, external_backends
from tilewright.errors import GraphError
from tilewright.graph.graph import Array

Session = Callable[[bytes], ExternalFunction]

# In single precision, as we compute: by itself OpenVINO takes bfloat16 where processors have it.
OPENVINO_SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}


def missing(package: str, what: str) -> GraphError:
    """The error where a library is not installed."""
    return GraphError(f"{what} needs the package {package}: pip install {package}")


def onnxruntime_session(model: bytes) -> ExternalFunction:
    """A model in onnxruntime, whose threads sleep while ours work."""
    try:
        import onnxruntime
    except ImportError:
        raise missing("onnxruntime", "running a part of a model with onnxruntime") from None

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its errors are raised as well
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        made: Sequence[Array] = session.run(None, dict(zip(names, arrays, strict=True)))
        return made

    return run


def reference_session(model: bytes) -> ExternalFunction:
    """A model in the evaluator that comes with onnx: slow, and knows nearly everything."""
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise missing("onnx", "running a part of a model by reference") from None
    loaded = onnx.load_model_from_string(model)
    _state_conditions(loaded.graph)
    session = ReferenceEvaluator(loaded)

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        feeds = dict(zip(session.input_names, arrays, strict=True))
        return cast("Sequence[Array]", session.run(None, feeds))

    return run


def _state_conditions(graph: Any) -> None:
    """Write out that loops without a condition go on: the reference would end them at once."""
    from onnx import helper, numpy_helper

    for node in list(graph.node):
        for attribute in node.attribute:
            _state_conditions(attribute.g)
        if node.op_type == "Loop" and not node.input[1]:
            node.input[1] = f"{node.output[0]}.goes_on"
            truth = numpy_helper.from_array(np.asarray(True), node.input[1])
            graph.node.insert(0, helper.make_node("Constant", [], [node.input[1]], value=truth))


def openvino_session(model: bytes) -> ExternalFunction:
    """A model in OpenVINO on the CPU."""
    try:
        import openvino
    except ImportError:
        raise missing("openvino", "running a part of a model with OpenVINO") from None
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", OPENVINO_SETTINGS)

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        request = compiled.create_infer_request()  # two runs at a time have two
        made = request.infer(list(arrays), share_inputs=True)
        return [np.array(made[port]) for port in compiled.outputs]

    return run


def with_constants(model: Any, part: ExternalPart) -> Any:
    """A model whose known inputs are stored in it."""
    from onnx import numpy_helper

    known = {model.graph.input[n].name: array for n, array in part.constants.items()}
    kept = [given for given in model.graph.input if given.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in known.items()
    )
    return model


@external_backends.register("onnx")
def run_onnx_node(part: ExternalPart) -> ExternalFunction:
    """Nodes of a model that we cannot import: the model is the program, in base64.

    onnxruntime runs what it can, the reference evaluator what is left.
    """
    import onnx

    model = onnx.load_model_from_string(base64.b64decode(part.program))
    data = with_constants(model, part).SerializeToString()
    return first_session(data, part.name)


def first_session(model: bytes, name: str) -> ExternalFunction:
    """The first library that takes a model."""
    said = []
    for session in (onnxruntime_session, reference_session):
        try:
            return session(model)
        except Exception as error:  # of the library's own: the next one may know better
            said.append(next(iter(str(error).strip().splitlines()), type(error).__name__))
    raise GraphError(f"{name}: neither onnxruntime nor onnx can run it: {'; '.join(said)}")
