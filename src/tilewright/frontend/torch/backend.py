"""The backend of `torch.compile(model, backend="tilewright")`.

PyTorch hands over graphs with the parameters among their inputs. They stay inputs, so that changes
of them are seen, or with `options={"freeze": True}` become constants, which kernels have in layouts
of their own; then each call checks that none was replaced or written to, else the graph is compiled
again. Graphs whose sizes change are compiled for each size. Graphs of tensors on a GPU run there:
kernels read and write the tensors where they lie. What cannot be compiled runs as PyTorch runs it,
and a warning says so once.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tilewright.byoc.torch_operators import array_of, tensor_of
from tilewright.database import Database
from tilewright.errors import ArgumentError, GraphError, TilewrightError
from tilewright.frontend.torch.importer import import_graph_module
from tilewright.frontend.torch.program import GraphOutput, InputView, PlainResult, Result
from tilewright.graph.external import is_external
from tilewright.graph.views import is_view
from tilewright.model import compile_model
from tilewright.runtime.devices import CPU, cuda
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

Compiled = Callable[..., Any]
_CPU = "cpu"
_TARGETS = {_CPU: "llvm", "cuda:0": "cuda"}  # by the device of tensors
MAX_SIZES = 16  # of one graph; further ones run in PyTorch
MAX_CHANGES = 4  # of frozen parameters; each compiles the graph again


class FallbackWarning(UserWarning):
    """A part of a model runs in PyTorch, for a reason that the text gives."""


@dataclass(frozen=True)
class BackendOptions:
    """`torch.compile(..., options={...})`."""

    freeze: bool = False  # parameters and buffers are constants until they change
    target: Target | str | None = None  # without one that of the device where tensors are
    database: Database | None = None  # schedules for kernels

    @staticmethod
    def of(given: Mapping[str, Any]) -> BackendOptions:
        """Options by name."""
        known = [field.name for field in fields(BackendOptions)]
        for name in given:
            if name not in known:
                raise ArgumentError(
                    f"backend tilewright has no option {name!r}{did_you_mean(name, known)}"
                )
        return BackendOptions(**given)


def compile_fx(
    module: Any, inputs: Sequence[Any], *, mode: str | None = None, options: Any = None
) -> Compiled:
    """What `torch.compile` calls for each graph that it finds."""
    import torch

    if mode is not None:
        raise ArgumentError(f"backend tilewright has no mode {mode!r}; use options={{...}}")
    chosen = BackendOptions.of(options or {})
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return _in_torch(module, "training is not compiled; call the model under torch.no_grad()")
    try:
        chosen = replace(chosen, target=_target_of(tensors, chosen))
    except GraphError as error:
        return _in_torch(module, str(error))
    if len(tensors) < len(inputs):
        return _SizedGraphs(module, chosen)
    try:
        return _CompiledGraph(module, inputs, chosen)
    except TilewrightError as error:
        return _in_torch(module, str(error))


def _target_of(tensors: Sequence[Any], options: BackendOptions) -> Target:
    """What kernels are compiled for, so that they run where the tensors are."""
    places = sorted({_place(x) for x in tensors}) or [_CPU]
    if len(places) > 1:
        raise GraphError(f"its tensors are on {' and '.join(places)}, expected one device")
    (place,) = places
    if place not in _TARGETS:
        raise GraphError(f"its tensors are on {place}, expected {' or '.join(_TARGETS)}")
    target = Target(options.target or _TARGETS[place])
    if target.is_cpu != (place == _CPU):
        raise GraphError(f"its tensors are on {place}, and the target is {target.kind.name}")
    missing = "" if target.is_cpu else cuda(0).why_missing
    if missing:
        raise GraphError(missing)
    return target


def _place(tensor: Any) -> str:
    return _CPU if tensor.device.type == _CPU else f"{tensor.device.type}:{tensor.device.index}"


def _in_torch(module: Any, why: str) -> Compiled:
    warnings.warn(f"a graph runs in PyTorch: {why}", FallbackWarning, stacklevel=3)
    forward: Compiled = module.forward
    return forward


class _SizedGraphs:
    """Runs one graph whose sizes change: they are among its inputs."""

    def __init__(self, module: Any, options: BackendOptions) -> None:
        self._module = module
        self._options = options
        self._compiled: dict[Any, Compiled] = {}

    def __call__(self, *inputs: Any) -> Any:
        key = tuple(getattr(x, "shape", x) for x in inputs)
        if key not in self._compiled:
            self._compiled[key] = self._compile(inputs)
        return self._compiled[key](*inputs)

    def _compile(self, inputs: Sequence[Any]) -> Compiled:
        if len(self._compiled) >= MAX_SIZES:
            self._compiled[None] = self._compiled.get(None) or _in_torch(
                self._module, f"it was compiled for {MAX_SIZES} different sizes already"
            )
            return self._compiled[None]
        try:
            return _CompiledGraph(self._module, inputs, self._options)
        except TilewrightError as error:
            return _in_torch(self._module, str(error))


class _CompiledGraph:
    """Runs one graph for inputs of fixed shapes."""

    def __init__(self, module: Any, inputs: Sequence[Any], options: BackendOptions) -> None:
        self._module = module
        self._options = options
        self._frozen = _frozen_positions(module, inputs) if options.freeze else ()
        self._changes = 0
        self._prepare(inputs)

    def _prepare(self, inputs: Sequence[Any]) -> None:
        program = import_graph_module(self._module, inputs, self._frozen)
        written = set(self._frozen) & set(program.writes)
        if written:  # statistics that the graph itself keeps
            self._frozen = tuple(n for n in self._frozen if n not in written)
            program = import_graph_module(self._module, inputs, self._frozen)
        nodes = program.graph.nodes
        if nodes and all(is_external(node) or is_view(node) for node in nodes):
            raise GraphError("none of it would run in our kernels")
        options = self._options
        self._program = program
        assert options.target is not None
        self._run = compile_model(program.graph, options.target, options.database)
        frozen = [inputs[n] for n in self._frozen]
        self._seen = [weakref.ref(x) for x in frozen]
        self._versions = _versions(frozen)
        self._given = [
            n for n, x in enumerate(inputs) if hasattr(x, "detach") and n not in self._frozen
        ]

    def _compile_again(self, inputs: Sequence[Any]) -> None:
        self._changes += 1
        if self._changes > MAX_CHANGES:
            warnings.warn(
                f"parameters changed {self._changes} times, so they are not frozen any more; "
                "leave out options={'freeze': True} while they change",
                FallbackWarning,
                stacklevel=2,
            )
            self._frozen = ()
        self._prepare(inputs)

    def _has_changed(self, inputs: Sequence[Any]) -> bool:
        """True if a frozen tensor was replaced, even by one in the same memory, or written to."""
        frozen = [inputs[n] for n in self._frozen]
        return _versions(frozen) != self._versions or any(
            seen() is not x for seen, x in zip(self._seen, frozen, strict=True)
        )

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        import torch

        if self._frozen and self._has_changed(inputs):
            self._compile_again(inputs)
        is_on_cpu = self._run.device.device_type == CPU
        array = array_of if is_on_cpu else _readable_on_gpu
        made = self._run(*(array(inputs[n]) for n in self._given))
        outputs = [tensor_of(x) if is_on_cpu else torch.from_dlpack(x) for x in made]
        for position, number in self._program.writes.items():
            inputs[position].copy_(outputs[number])
        return tuple(_delivered(result, outputs, inputs) for result in self._program.results)


def _versions(tensors: Sequence[Any]) -> list[tuple[int, int]]:
    """Where tensors lie, and how often they were written to."""
    return [(x.data_ptr(), x._version) for x in tensors]


def _readable_on_gpu(tensor: Any) -> Any:
    """The tensor itself, or a copy on the GPU if it does not lie as kernels read it."""
    plain = tensor.detach().contiguous().resolve_conj().resolve_neg()
    return plain.clone() if plain.data_ptr() % cuda(0).api.alignment else plain


def _delivered(result: Result, outputs: Sequence[Any], inputs: Sequence[Any]) -> Any:
    match result:
        case GraphOutput(number=number):
            return outputs[number]
        case InputView(position=position):
            return result.of(inputs[position])
        case PlainResult(value=value):
            return value


def _frozen_positions(module: Any, inputs: Sequence[Any]) -> tuple[int, ...]:
    """Parameters and buffers, whose versions can be followed."""
    import torch

    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    return tuple(
        n
        for n, (name, x) in enumerate(zip(names, inputs, strict=True))
        if (isinstance(x, torch.nn.Parameter) or "buffers" in name or "parameters" in name)
        and not x.is_inference()
    )
