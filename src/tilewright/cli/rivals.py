"""Rivals that a model is compared with, each in words where it cannot run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.byoc.onnx_sessions import OPENVINO_SETTINGS
from tilewright.cli.models import Model
from tilewright.cli.originals import (
    Original,
    first_line,
    in_onnxruntime,
    in_torch,
    in_torch_on_gpu,
)
from tilewright.errors import GraphError, TuneError
from tilewright.graph.graph import Array
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

# A rival for a target, or why there is none.
Rival = Callable[[Model, Target], "Original | str"]


def rivals_of(text: str | None) -> list[str]:
    """The names of a list such as `onnxruntime,torch`."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name not in RIVALS:
            raise TuneError(f"--against {name}: there is no such rival{did_you_mean(name, RIVALS)}")
    return list(dict.fromkeys(names))


def make_rivals(
    names: Sequence[str], model: Model, target: Target
) -> tuple[list[Original], list[str]]:
    """Those that can run the model, and why the others cannot."""
    found, notes = [], []
    for name in names:
        if find_spec(name.partition("-")[0]) is None:
            notes.append(f"{name}: not installed here")
            continue
        try:
            made = RIVALS[name](model, target)
        except GraphError as error:
            made = str(error)
        if isinstance(made, Original):
            found.append(made)
        else:
            notes.append(f"{name}: {made}")
    return found, notes


def _reader_of_onnx(use: Callable[[Model, int, Path], Original]) -> Rival:
    """A rival that reads files of ONNX; modules of PyTorch are exported for it."""

    def make(model: Model, target: Target) -> Original | str:
        if not target.is_cpu:
            return "it is compared on the CPU; --target llvm"
        if model.path is not None:
            return use(model, target.num_cores, model.path)
        if model.torch_module is None:
            return f"{model.name} is neither an ONNX file nor a PyTorch module"
        return _exported(model, lambda path: use(model, target.num_cores, path))

    return make


def _torch(model: Model, target: Target) -> Original | str:
    if model.torch_module is None:
        return f"{model.name} is not a PyTorch module"
    return in_torch(model, target.num_cores) if target.is_cpu else in_torch_on_gpu(model)


def _torch_compile(model: Model, target: Target) -> Original | str:
    if target.is_cpu:
        return "it is compared on a GPU; --target cuda"
    if model.torch_module is None:
        return f"{model.name} is not a PyTorch module"
    return in_torch_on_gpu(model, compiled=True)


def _exported(model: Model, use: Callable[[Path], Original]) -> Original | str:
    """A rival that reads ONNX, on a module of PyTorch."""
    if find_spec("onnx") is None:
        return "the package onnx, which exports need, is not installed here"
    import torch

    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        inputs = model.torch_inputs
        torch.onnx.export(model.torch_module.eval(), inputs, str(path), dynamo=False)
        return use(path)


def _in_openvino(model: Model, threads: int, path: Path) -> Original:
    import openvino

    core = openvino.Core()
    options = {**OPENVINO_SETTINGS, "INFERENCE_NUM_THREADS": threads}
    try:
        compiled: Any = core.compile_model(core.read_model(str(path)), "CPU", options)
    except Exception as error:  # of its own
        raise GraphError(f"cannot load the model: {first_line(error)}") from error
    request = compiled.create_infer_request()

    def run(inputs: Sequence[Array]) -> Sequence[Array]:
        made = request.infer(dict(enumerate(inputs)))
        return [np.asarray(made[output]) for output in compiled.outputs]

    return Original("openvino", run)


RIVALS: Mapping[str, Rival] = {
    "onnxruntime": _reader_of_onnx(in_onnxruntime),
    "torch": _torch,
    "torch-compile": _torch_compile,
    "openvino": _reader_of_onnx(_in_openvino),
}
