"""The backend of `torch.compile(model, backend="tilewright")`.

PyTorch hands over graphs with the parameters among their inputs. These are taken for constants,
so that kernels may have them in layouts of their own; each call looks whether one was replaced or
written to, and then they are packed again. What cannot be compiled runs as PyTorch runs it, and a
warning says so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.frontend.torch.importer import import_graph_module
from tilewright.model import Executable, compile_model

Compiled = Callable[..., Any]


class FallbackWarning(UserWarning):
    """A part of a model runs in PyTorch, for a reason that the text gives."""


def compile_fx(module: Any, inputs: Sequence[Any], **options: Any) -> Compiled:
    """What `torch.compile` calls for each graph that it finds."""
    import torch

    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in inputs):
        return _in_torch(module, "training is not compiled; call the model under torch.no_grad()")
    if not all(isinstance(x, torch.Tensor) for x in inputs):
        return _in_torch(module, "sizes that change are not compiled; use dynamic=False")
    if any(x.device.type != "cpu" for x in inputs):
        return _in_torch(module, "its tensors are not on the CPU")
    try:
        return _CompiledGraph(module, inputs)
    except TilewrightError as error:
        return _in_torch(module, str(error))


def _in_torch(module: Any, why: str) -> Compiled:
    warnings.warn(f"a graph runs in PyTorch: {why}", FallbackWarning, stacklevel=3)
    forward: Compiled = module.forward
    return forward


class _CompiledGraph:
    """Runs one graph; constants are those inputs that are parameters or buffers."""

    def __init__(self, module: Any, inputs: Sequence[Any]) -> None:
        self._module = module
        self._frozen = _frozen_positions(module, inputs)
        self._prepare(inputs)

    def _prepare(self, inputs: Sequence[Any]) -> None:
        graph = import_graph_module(self._module, inputs, self._frozen)
        self._run: Executable = compile_model(graph)
        self._seen = self._state(inputs)

    def _state(self, inputs: Sequence[Any]) -> list[tuple[int, int]]:
        return [(inputs[n].data_ptr(), inputs[n]._version) for n in self._frozen]

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        import torch

        if self._state(inputs) != self._seen:
            self._prepare(inputs)
        frozen = set(self._frozen)
        given = [x.detach().numpy() for n, x in enumerate(inputs) if n not in frozen]
        return tuple(torch.from_numpy(np.asarray(made)) for made in self._run(*given))


def _frozen_positions(module: Any, inputs: Sequence[Any]) -> tuple[int, ...]:
    import torch

    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    return tuple(
        n
        for n, (name, x) in enumerate(zip(names, inputs, strict=True))
        if isinstance(x, torch.nn.Parameter) or "buffers" in name or "parameters" in name
    )
