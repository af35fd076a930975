"""From a program of `torch.export` to a graph."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.byoc.torch_operators import array_of
from tilewright.errors import GraphError, TilewrightError
from tilewright.frontend.partial import coverage_of, flop_by_name, listed, warn_of_references
from tilewright.frontend.torch import converters
from tilewright.frontend.torch.context import CallArguments, CallContext, find_converter
from tilewright.frontend.torch.converters.resize import RESIZES
from tilewright.frontend.torch.eager import add_eager_call, static_type
from tilewright.frontend.torch.program import TorchProgram, outputs_of
from tilewright.graph import Graph, GraphBuilder, GraphNode, GraphValue, TensorType

# Kept whole: kernels of ours compute them better than what they are made of.
KEPT = (
    "scaled_dot_product_attention.default", "linear.default", "silu.default",
    "layer_norm.default", "conv2d.default", "conv1d.default", "conv3d.default",
    "adaptive_avg_pool2d.default", "gelu.default", "hardswish.default", "hardsigmoid.default",
    "max_pool2d.default", "batch_norm.default", "softmax.int", "roll.default",
    *(f"{name}.{overload}" for name in RESIZES for overload in ("default", "vec")),
)  # fmt: skip

# What converters run into if a call has arguments that they do not know.
_MISTAKES = (TilewrightError, ValueError, TypeError, LookupError, ArithmeticError)

del converters  # imported for what it registers


def import_module(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    partial: bool = False,
    allow_nan: bool = False,
) -> Graph:
    """A graph of a `torch.nn.Module`, for inputs of the shapes of `args`.

    With `partial`, operators that cannot be imported run in PyTorch, and a warning lists them.
    Weights with NaN are refused unless `allow_nan` is set.
    """
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise GraphError(f"expected a torch.nn.Module, got {type(module).__name__}")
    given = (args,) if isinstance(args, torch.Tensor) else args
    with _in_eval_mode(module):
        exported = _exported(module, given, kwargs)
    return import_exported(exported, partial=partial, allow_nan=allow_nan)


@contextlib.contextmanager
def _in_eval_mode(module: Any) -> Iterator[None]:
    """As in inference; afterwards each part is in the mode that it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def import_graph_module(module: Any, inputs: Sequence[Any], frozen: Sequence[int]) -> TorchProgram:
    """What `torch.compile` found as a program; inputs at some positions become constants.

    Operators that cannot be imported run in PyTorch.
    """
    exported = _exported(module, inputs)
    return _imported(exported, {n: inputs[n] for n in frozen}, partial=True)


def _exported(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    torch = _torch()
    try:
        with torch.no_grad():
            return torch.export.export(module, tuple(args), dict(kwargs or {}), strict=False)
    except Exception as error:  # of PyTorch's own: control flow on data, wrong arguments
        said = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise GraphError(f"torch.export refuses the module: {said}") from error


def import_exported(
    exported: Any,
    constants: Mapping[int, Any] | None = None,
    partial: bool = False,
    allow_nan: bool = False,
) -> Graph:
    """A graph of a program that `torch.export` made; `constants` are inputs by position."""
    if not allow_nan:
        _refuse_nan(exported)
    return _imported(exported, constants or {}, partial).whole_graph()


def _imported(exported: Any, constants: Mapping[int, Any], partial: bool) -> TorchProgram:
    torch = _torch()
    table = torch.export.default_decompositions()
    for name in KEPT:
        word, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, word), overload), None)
    with torch.no_grad():
        try:
            with warnings.catch_warnings():  # PyTorch's, of names of its own that it uses
                warnings.simplefilter("ignore", FutureWarning)
                plain = exported.run_decompositions(table)
        except Exception as error:  # of PyTorch's own: a number that depends on data
            said = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise GraphError(f"PyTorch cannot take the program apart: {said}") from error
    importer = _Importer(plain, constants, partial)
    program = importer.program()
    if importer.refused:
        coverage = coverage_of(program.graph, importer.flop)
        warn_of_references("in PyTorch", importer.refused, coverage)
    return program


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise GraphError("importing PyTorch's models needs the package torch") from None
    return torch


class _Importer:
    def __init__(self, exported: Any, constants: Mapping[int, Any], partial: bool) -> None:
        self._exported = exported
        self._given = constants
        self._partial = partial
        self._positions: dict[str, int] = {}  # of inputs, by name
        self._builder = GraphBuilder("main")
        self._made: dict[Any, Any] = {}
        self.refused: dict[str, str] = {}  # calls that PyTorch computes, and why

    def flop(self, node: GraphNode) -> float:
        """The arithmetic of a call that PyTorch computes."""
        return flop_by_name(self.refused.get(node.source, "").partition(" ")[0], node)

    def program(self) -> TorchProgram:
        nodes = list(self._exported.graph.nodes)
        for node in nodes:
            if node.op == "placeholder":
                _check_sizes(node)
        self._refuse_unknown(nodes)
        specs = {spec.arg.name: spec for spec in self._exported.graph_signature.input_specs}
        for node in nodes:
            if node.op == "placeholder":
                self._made[node] = self._placeholder(node, specs[node.name])
            elif node.op == "call_function":
                self._made[node] = self._call(node)
        return outputs_of(self._exported, self._builder, self._made, self._positions)

    def _placeholder(self, node: Any, spec: Any) -> Any:
        if spec.kind.name == "USER_INPUT":
            position = self._positions[node.name] = len(self._positions)
            if position in self._given:
                return self._builder.constant(array_of(self._given[position]), node.name)
            value = node.meta.get("val")
            if not hasattr(value, "shape"):
                return value
            return self._builder.input(node.name, type_of(value))
        exported = self._exported
        stores = (exported.state_dict, exported.constants)
        tensor = next(store[spec.target] for store in stores if spec.target in store)
        return self._builder.constant(array_of(tensor), node.name)

    def _refuse_unknown(self, nodes: Sequence[Any]) -> None:
        missing: dict[str, list[str]] = {}
        for node in nodes:
            if node.op == "call_function" and _plain(node) is None:
                name = _name_of(node)
                has_schema = hasattr(node.target, "_schema")
                can = self._partial or find_converter(name) is not None
                # Sizes that are asked for are those of a call that is refused where it stands.
                if not has_schema or not (can or name.startswith("sym_")):
                    missing.setdefault(name, []).append(node.name)
        if missing:
            share = "" if self._partial else self._covered()
            raise GraphError(f"operators that cannot be imported yet: {listed(missing)}{share}")

    def _covered(self) -> str:
        importer = _Importer(self._exported, self._given, True)
        try:
            share = coverage_of(importer.program().graph, importer.flop)
        except TilewrightError:
            return ""
        return f"; {share}, and partial=True runs these in PyTorch"

    def _call(self, node: Any) -> Any:
        plain = _plain(node)
        if plain is not None:
            return plain(*self._translated(node.args))
        count = len(self._builder.nodes)
        try:
            return self._converted(node)
        except _MISTAKES as error:
            if not self._partial:
                raise GraphError(_reason(_name_of(node), node.name, error)) from error
            del self._builder.nodes[count:]  # what a converter began with
            made = add_eager_call(self._builder, node, self._translated)
            self.refused[node.name] = _reason(_name_of(node), node.name, error)
            return made

    def _converted(self, node: Any) -> Any:
        name = _name_of(node)
        converter = find_converter(name)
        if converter is None:
            raise GraphError(f"{name} ({node.name}) cannot be imported yet")
        results = node.meta["val"]
        several = isinstance(results, (tuple, list))
        args = self._arguments(node)
        what = f"{name} ({node.name})"
        types = [static_type(one, what) for one in (results if several else [results])]
        args["result_shape"] = list(types[0].extents)
        if several:
            args["result_shapes"] = [list(kind.extents) for kind in types]
        made = converter(CallContext(self._builder, name, node.name, args, types[0].dtype))
        _check_used(args)
        _check_types(made if several else [made], types)
        return made

    def _arguments(self, node: Any) -> CallArguments:
        schema = node.target._schema.arguments
        given: dict[str, Any] = {}
        for argument, value in zip(schema, node.args, strict=False):
            given[argument.name] = self._translated(value)
        for word, value in node.kwargs.items():
            given[word] = self._translated(value)
        usual = {one.name: one.default_value for one in schema if one.has_default_value()}
        return CallArguments(usual | given, usual)

    def _translated(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._translated(item) for item in value]
        return self._made[value] if hasattr(value, "op") and value in self._made else value


def _check_used(args: CallArguments) -> None:
    """Insist on converters that look at what is not as usual, or say that they need not."""
    for word in args.unused():
        raise GraphError(f"{word}={args[word]!r} is not supported")


def _check_types(made: Sequence[Any], types: Sequence[TensorType]) -> None:
    for value, kind in zip(made, types, strict=False):
        if isinstance(value, GraphValue) and value.type != kind:
            raise GraphError(f"it would make {value.type}, and PyTorch makes {kind}")


def _check_sizes(node: Any) -> None:
    for axis, extent in enumerate(getattr(node.meta.get("val"), "shape", ())):
        if not isinstance(extent, int):
            raise GraphError(
                f"axis {axis} of input {node.name} has no size that is known: export the module "
                "without dynamic_shapes"
            )


def _refuse_nan(exported: Any) -> None:
    weights = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs}
    for node in exported.graph.nodes:
        tensor = exported.state_dict.get(weights.get(node.name))
        if node.op != "placeholder" or tensor is None or not node.users:
            continue
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            reader = next(iter(node.users))
            raise GraphError(
                f"{_name_of(reader)} ({reader.name}): its weight {weights[node.name]!r} contains "
                "NaN; pass allow_nan=True to import it anyway"
            )


def _reason(name: str, place: str, error: Exception) -> str:
    prefix = f"{name} ({place})"
    text = str(error) if isinstance(error, TilewrightError) else repr(error)
    return text if text.startswith(prefix) else f"{prefix}: {text}"


def _plain(node: Any) -> Callable[..., Any] | None:
    """What is computed at once: picking one of several results, checks, arithmetic on sizes."""
    if "_assert" in str(node.target):
        return lambda *_: None
    own: Callable[..., Any] = node.target
    return own if getattr(node.target, "__module__", "") == operator.add.__module__ else None


def _name_of(node: Any) -> str:
    return str(node.target).removeprefix("aten.")


def type_of(tensor: Any) -> TensorType:
    """The type of a tensor."""
    shape = tuple(int(extent) for extent in tensor.shape)
    return TensorType(shape, str(tensor.dtype).removeprefix("torch."))
