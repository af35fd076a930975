"""Originals of models, run by whom they were made for: what our results are compared with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.models import Model
from tilewright.errors import GraphError
from tilewright.graph.graph import Array
from tilewright.model import Executable
from tilewright.model.checking import TOLERANCES, difference as share_of_largest
from tilewright.model.kernels import compile_calls
from tilewright.runtime.threads import available_cores
from tilewright.space.gpu.plain_loops import plain_schedule
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.tune.context import normalize_mod

ONNXRUNTIME = "onnxruntime"
_LAYERS = 10  # times what one layer may differ: errors of many add up


@dataclass(frozen=True)
class Original:
    """A model as others run it."""

    name: str
    run: Callable[[Sequence[Array]], Sequence[Array]]
    note: str = ""  # why it is not another one
    # For models on a GPU: the same on inputs that are there already, without waiting for it.
    start: Callable[[Sequence[Array]], Callable[[], object]] | None = None


def original_of(model: Model, target: Target) -> Original:
    """onnxruntime for ONNX where it is installed, PyTorch for its modules, else plain loops."""
    note = ""
    assert model.graph.outputs  # read before others look at the file: our messages are clearer
    if model.path is not None and find_spec("onnxruntime") is not None:
        try:
            return in_onnxruntime(model, threads_for(target))
        except GraphError as error:
            note = str(error)
    if model.torch_module is not None:
        return in_torch(model, threads_for(target))
    return replace(as_plain_loops(model, target if target.is_cpu else Target("llvm")), note=note)


def threads_for(target: Target) -> int:
    """How many threads others have; beside a GPU all cores of this machine."""
    return target.num_cores if target.is_cpu else available_cores()


def in_onnxruntime(model: Model, threads: int, path: Path | None = None) -> Original:
    """By onnxruntime, from the model's own file or another one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(path or model.path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # of its own
        raise GraphError(f"onnxruntime cannot load it: {first_line(error)}") from error
    names = [given.name for given in session.get_inputs()]

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        return list(session.run(None, dict(zip(names, inputs, strict=True))))

    return Original(ONNXRUNTIME, run)


def layers_in_onnxruntime(model: Model) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
    """The result of every node of a file of ONNX, by its name, as onnxruntime computes it."""
    import onnx
    import onnxruntime

    proto = onnx.load(str(model.path))
    del proto.graph.output[:]
    names: dict[str, str] = {}
    for number, node in enumerate(proto.graph.node):
        if node.output and node.output[0]:
            names[node.output[0]] = node.name or f"{node.op_type}_{number}"
            proto.graph.output.add(name=node.output[0])
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        given = [each.name for each in session.get_inputs()]
        made = session.run(list(names), dict(zip(given, inputs.values(), strict=True)))
        return dict(zip(names.values(), made, strict=True))

    return run


def in_torch(model: Model, threads: int) -> Original:
    """By PyTorch, as it is."""
    import torch

    module = model.torch_module.eval()
    torch.set_num_threads(threads)

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        with torch.no_grad():
            made: Any = module(*(torch.from_numpy(np.asarray(array)) for array in inputs))
        outputs = made if isinstance(made, (tuple, list)) else [made]
        return [np.asarray(output.numpy()) for output in outputs]

    return Original("PyTorch", run)


def in_torch_on_gpu(model: Model, *, compiled: bool = False) -> Original:
    """By PyTorch on the GPU: as it is, or by its own compiler."""
    import torch

    if not torch.cuda.is_available():
        raise GraphError("the installed PyTorch sees no GPU")
    module = copy.deepcopy(model.torch_module).eval().cuda()
    if compiled:
        module = torch.compile(module, mode="reduce-overhead")

    def start(inputs: Sequence[Array]) -> Callable[[], Any]:
        given = [torch.from_numpy(np.asarray(array)).cuda() for array in inputs]

        def call() -> Any:
            with torch.no_grad():
                return module(*given)

        return call

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        try:
            made: Any = start(inputs)()
        except Exception as error:  # of its own
            raise GraphError(f"cannot run the model: {first_line(error)}") from error
        outputs = made if isinstance(made, (tuple, list)) else [made]
        return [np.asarray(output.cpu().numpy()) for output in outputs]

    return Original("torch.compile" if compiled else "PyTorch", run, start=start)


def as_plain_loops(model: Model, target: Target) -> Original:
    """By the operators as they are defined: nothing simplified, nothing scheduled."""
    calls = compile_calls(
        model.graph, target, lambda func, where: plain_schedule(normalize_mod(func), where).mod
    )
    executable = Executable(model.graph, calls)
    return Original("plain loops", lambda inputs: executable(*inputs))


def first_line(error: BaseException) -> str:
    """What an exception of another library says, in a line without places in its sources."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return line.rpartition(") ")[2] if "_src/" in line else line


def difference(wanted: Sequence[Array], found: Sequence[Array]) -> str:
    """In what outputs differ more than rounding explains; empty if they agree."""
    if len(wanted) != len(found):
        return f"{counted(len(found), 'output')} instead of {len(wanted)}"
    for number, (want, have) in enumerate(zip(wanted, found, strict=True)):
        apart = _apart(np.asarray(want), np.asarray(have))
        if apart:
            return f"output {number} {apart}"
    return ""


def _apart(want: Array, have: Array) -> str:
    if want.shape != have.shape or want.dtype != have.dtype:
        kinds = [f"{each.dtype}{list(each.shape)}" for each in (have, want)]
        return f"is {kinds[0]} instead of {kinds[1]}"
    if want.dtype.kind in "iub":
        wrong = int(np.count_nonzero(want != have))
        return f"differs in {wrong} of {want.size} elements" if wrong else ""
    gap, limit = share_of_largest(have, want), tolerance_of(want)
    return f"differs by {gap:.2g} of its largest element, {limit:.2g} is rounding" * (gap > limit)


def tolerance_of(want: Array) -> float:
    """The largest difference that counts as rounding, as a share of the largest element."""
    return _LAYERS * TOLERANCES.get(str(want.dtype), 0.0)
