"""From an ONNX model to a graph: nodes in order, what is known is computed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import GraphError, TilewrightError
from tilewright.frontend.onnx import converters
from tilewright.frontend.onnx.converters.sequences import SequenceValue
from tilewright.frontend.onnx.dependencies import needed_nodes
from tilewright.frontend.onnx.loading import checked_dtype, load_model
from tilewright.frontend.onnx.reference import References, declared_types
from tilewright.frontend.onnx.scope import DEFAULT_DOMAINS, NodeScope
from tilewright.frontend.partial import coverage_of, flop_by_name, listed, warn_of_references
from tilewright.graph import Graph, GraphBuilder, GraphNode, GraphValue, TensorType
from tilewright.graph.graph import Array
from tilewright.ir.numpy_bridge import to_numpy

_OLDEST = 7  # of the operator set
_MOST_EXTENT = (1 << 31) - 1
_DEPRECATED = ("GroupNormalization",)  # in the very version that brought it, and in use

del converters  # imported for what it registers


@dataclass(frozen=True)
class ImportOptions:
    """Sizes of dimensions, shapes of inputs, and values of inputs that are known, by name."""

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    allow_nan: bool = False
    partial: bool = False
    asks_for_values: bool = False  # of inputs that decide about shapes, before a reference is used


def import_onnx(
    source: str | Path | bytes | Any,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Array] | None = None,
    allow_nan: bool = False,
    partial: bool = False,
) -> Graph:
    """A graph of an ONNX model; dimensions with names get their sizes from `dims` or `shapes`.

    `source` is a path, the bytes of a model, or an `onnx.ModelProto` with its data inside.

    Inputs in `values` are constants of the graph, no inputs any more. Weights with NaN are refused
    unless `allow_nan` is set. With `partial`, operators that cannot be imported run by reference
    (in onnxruntime, or in the evaluator of onnx), and a warning lists them.
    """
    model, folder = load_model(source)
    options = ImportOptions(dims or {}, shapes or {}, values or {}, allow_nan, partial)
    return graph_of(model, folder, options)


def graph_of(model: Any, folder: Path | None, options: ImportOptions) -> Graph:
    """A graph of a model that is loaded."""
    from onnx import inliner

    inlined = inliner.inline_local_functions(model) if model.functions else model
    importer = _Importer(inlined, folder, options)
    graph = importer.graph()
    if importer.refused:
        coverage = coverage_of(graph, importer.flop)
        warn_of_references("by reference", importer.refused, coverage)
    return graph


def input_protos(model: Any) -> list[Any]:
    """The inputs that have to be given: in old models constants are listed among them."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [given for given in model.graph.input if given.name not in constants]


class _Importer:
    def __init__(self, model: Any, folder: Path | None, options: ImportOptions) -> None:
        self._model = model
        self._options = options
        self._builder = GraphBuilder("main")
        versions = {entry.domain: entry.version for entry in model.opset_import}
        declared = dict(declared_types(model.graph.value_info))
        self._references = References(declared, options.asks_for_values)
        self._scope = NodeScope(self._builder, versions, folder, allows_nan=options.allow_nan)
        if options.partial:
            self._scope.references = self._references
        self._folder = folder
        self._dims = dict(options.dims)

    @property
    def refused(self) -> Mapping[str, str]:
        """Nodes that are computed by reference, and why."""
        return self._references.refused

    def flop(self, node: GraphNode) -> float:
        """The arithmetic of a node that is computed by reference."""
        return flop_by_name(self.refused.get(node.source, "").partition(" ")[0], node)

    def graph(self) -> Graph:
        graph = self._model.graph
        if not graph.output:
            raise GraphError("the model has no outputs, so there is nothing to compute")
        self._check_version()
        self._check_names()
        self._bind_dims()
        self._scope.add_initializers(graph.initializer, graph.node)
        for given in input_protos(self._model):
            self._scope.values[given.name] = self._input(given)
        wanted = [output.name for output in graph.output]
        self._refuse_unknown(needed_nodes(graph.node, wanted))
        self._check_nodes(graph.node)
        self._scope.run(graph.node, wanted)
        outputs = self._scope.outputs(wanted, "the graph")
        for named, value in zip(graph.output, outputs, strict=True):
            if isinstance(value, SequenceValue):
                raise GraphError(f"output {named.name} is a sequence, which is not supported")
            self._check_output_type(named, value)
        inputs = [given.name for given in input_protos(self._model)]
        return replace(
            self._builder.graph(outputs),
            input_names=tuple(name for name in inputs if name not in self._options.values),
            output_names=tuple(wanted),
        )

    def _check_output_type(self, declared: Any, value: GraphValue) -> None:
        """The type that the model states; its shapes are often those of another run."""
        element = declared.type.tensor_type.elem_type
        dtype = checked_dtype(element, f"output {declared.name}") if element else value.type.dtype
        if dtype != value.type.dtype:
            what = f"the model says that output {declared.name!r} is {dtype}"
            for number, node in enumerate(self._model.graph.node):
                if declared.name in node.output:
                    made = f"{node.op_type} ({node.name or f'{node.op_type}_{number}'})"
                    raise GraphError(f"{made} makes {value.type.dtype}, and {what}")
            raise GraphError(f"{what}, and it is {value.type.dtype}")

    def _check_version(self) -> None:
        from onnx import defs

        version, newest = self._scope.version(""), defs.onnx_opset_version()
        used = {n.op_type for n in self._model.graph.node if n.domain in DEFAULT_DOMAINS}
        if not used or _OLDEST <= version <= newest:
            return
        if version > newest or any(_has_changed(op_type, version) for op_type in used):
            raise GraphError(
                f"the model uses version {version} of ONNX's operators; {_OLDEST} to {newest} can "
                "be imported (onnx.version_converter changes the version)"
            )

    def _check_names(self) -> None:
        """Bindings for names that the model has, and no name that is made twice."""
        graph = self._model.graph
        names = [given.name for given in input_protos(self._model)]
        for name in (*self._options.shapes, *self._options.values):
            if name not in names:
                raise GraphError(f"there is no input {name!r}; the model has {', '.join(names)}")
        made = set(names) | {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            for word in filter(None, node.output):
                if word in made:
                    raise GraphError(
                        f"{node.op_type} ({node.name or word}) makes {word!r} a second time"
                    )
                made.add(word)

    def _bind_dims(self) -> None:
        """Sizes of dimensions from the shapes that were given, which have to fit the model's."""
        sizes: Mapping[str, Any] = self._dims
        for name, size in sizes.items():
            if not isinstance(size, (int, np.integer)) or size < 0:
                raise GraphError(f"dims says that dimension {name!r} is {size!r}, expected a size")
        for given in input_protos(self._model):
            kind, name = given.type.tensor_type, given.name
            fixed = self._options.shapes.get(name)
            if fixed is None or not kind.HasField("shape"):
                continue
            if len(kind.shape.dim) != len(fixed):
                raise GraphError(
                    f"input {name} has {len(kind.shape.dim)} axes, shapes says {list(fixed)}"
                )
            for dim, extent in zip(kind.shape.dim, fixed, strict=True):
                known = dim.dim_value if dim.HasField("dim_value") else extent
                if dim.dim_param:
                    known = self._dims.setdefault(dim.dim_param, extent)
                if known != extent or extent < 0:
                    what = f"dimension {dim.dim_param!r}" if dim.dim_param else "an extent"
                    raise GraphError(
                        f"input {name} has {what} of {known}, shapes says {list(fixed)}"
                    )

    def _check_nodes(self, nodes: Sequence[Any]) -> None:
        """Insist on the attributes, and the numbers of inputs, that operators have."""
        from onnx import checker

        context = type(checker.DEFAULT_CONTEXT)()
        context.ir_version = self._model.ir_version or 3
        context.opset_imports = dict(self._scope.versions)
        for number, node in enumerate(nodes):
            bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            for body in bodies:
                self._check_nodes(body.node)
            try:
                if not bodies:  # which may read what is outside of them
                    checker.check_node(node, context)
            except Exception as error:  # of ONNX's own
                if node.op_type in _DEPRECATED and "is deprecated" in str(error):
                    continue
                name = node.name or f"{node.op_type}_{number}"
                said = str(error).splitlines()[0].rstrip(".")
                raise GraphError(f"{node.op_type} ({name}): {said}") from error

    def _input(self, given: Any) -> GraphValue:
        known = self._options.values.get(given.name)
        if known is None:
            return self._builder.input(given.name, self._input_type(given))
        return self._builder.constant(_value_of(given, np.asarray(known)), given.name)

    def _input_type(self, given: Any) -> TensorType:
        kind = given.type.tensor_type
        if not given.type.HasField("tensor_type"):
            raise GraphError(f"input {given.name} is not a tensor")
        dtype = checked_dtype(kind.elem_type, f"input {given.name}")
        fixed = self._options.shapes.get(given.name)
        if fixed is None and not kind.HasField("shape"):
            raise GraphError(
                f"input {given.name} has no shape: give shapes={{{given.name!r}: [...]}}"
            )
        if fixed is None:
            fixed = [self._input_extent(given.name, dim) for dim in kind.shape.dim]
        if max(fixed, default=0) > _MOST_EXTENT:
            raise GraphError(
                f"input {given.name} has an extent of {max(fixed)}, more than the {_MOST_EXTENT} "
                "that kernels count to"
            )
        return TensorType(tuple(map(int, fixed)), dtype)

    def _input_extent(self, name: str, dim: Any) -> int:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise GraphError(f"input {name} has an extent of {dim.dim_value}")
            return int(dim.dim_value)
        if dim.dim_param in self._dims:
            return int(self._dims[dim.dim_param])
        what = f"dimension {dim.dim_param!r}" if dim.dim_param else "a dimension without a name"
        hint = f"dims={{{dim.dim_param!r}: 1}} or " if dim.dim_param else ""
        raise GraphError(
            f"input {name} has {what}, whose size is not known: give {hint}"
            f"shapes={{{name!r}: [...]}}"
        )

    def _refuse_unknown(self, nodes: Sequence[tuple[int, Any]]) -> None:
        """All operators that we lack, at once."""
        missing: dict[str, list[str]] = {}
        for number, node in nodes:
            if not self._scope.can_import(node):
                domain = "" if node.domain in DEFAULT_DOMAINS else f"{node.domain}."
                name = node.name or f"{node.op_type}_{number}"
                missing.setdefault(f"{domain}{node.op_type}", []).append(name)
        if missing and not self._options.partial:
            raise GraphError(
                f"operators that cannot be imported yet: {listed(missing)}{self._covered()}"
            )

    def _covered(self) -> str:
        """The share of the rest, if a reference can compute what is missing."""
        partial = replace(self._options, partial=True)
        importer = _Importer(self._model, self._folder, partial)
        try:
            share = coverage_of(importer.graph(), importer.flop)
        except TilewrightError:
            return ""
        return f"; {share}, and partial=True runs these by reference"


def _value_of(given: Any, array: Array) -> Array:
    """Numbers for an input, in its type, if it can have them."""
    kind = given.type.tensor_type
    dtype = checked_dtype(kind.elem_type, f"input {given.name}")
    wanted = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
    fits = not kind.HasField("shape") or (
        len(wanted) == array.ndim
        and all(extent in (None, own) for extent, own in zip(wanted, array.shape, strict=True))
    )
    made = array if array.dtype.name == dtype else array.astype(to_numpy(dtype))
    if fits and (made is array or np.array_equal(made, array)):
        return made
    shown = ", ".join("?" if extent is None else str(extent) for extent in wanted)
    raise GraphError(
        f"values gives input {given.name} {array.dtype}{list(array.shape)}, expected "
        f"{dtype}[{shown}]"
    )


def _has_changed(op_type: str, version: int) -> bool:
    """True unless an operator was the same in the oldest version that we know."""
    from onnx import defs

    try:
        then, known = (defs.get_schema(op_type, v).since_version for v in (version, _OLDEST))
    except Exception:  # of ONNX's own: there was no such operator
        return True
    return bool(then != known)
