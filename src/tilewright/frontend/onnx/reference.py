"""Partial import: nodes that have no converter become external nodes, which a reference computes.

The types of their results come from ONNX's shape inference, from what the model says about them,
or, for operators that ONNX does not define, from one run on ones.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.byoc.onnx_export.writer import onnx_type
from tilewright.byoc.onnx_sessions import first_session
from tilewright.errors import GraphError
from tilewright.frontend.onnx.dependencies import read_by
from tilewright.frontend.onnx.functions import schema_of
from tilewright.frontend.onnx.loading import checked_dtype
from tilewright.graph import GraphBuilder, GraphValue, TensorType
from tilewright.graph.external import add_external
from tilewright.graph.graph import Array
from tilewright.ir.numpy_bridge import to_numpy

_MOST_FOLDED = 4096  # elements of constants that shape inference gets to see


@dataclass
class References:
    """Makes external nodes, and remembers why."""

    declared: Mapping[str, TensorType]  # what the model says about its values
    # Whoever imports can tell the values of inputs that decide about shapes, and wants to.
    asks_for_values: bool = False
    refused: dict[str, str] = field(default_factory=dict)  # nodes by name, and why
    _made: dict[GraphValue | None, tuple[_NodeInputs, Any, str]] = field(default_factory=dict)

    def add(
        self,
        builder: GraphBuilder,
        node: Any,
        values: Mapping[str, GraphValue],
        name: str,
        versions: Mapping[str, int],
    ) -> tuple[GraphValue | None, ...]:
        """The results of a node, by reference."""
        words = list(dict.fromkeys(read_by(node)))
        inputs = {word: values[word] for word in words}
        if any(not isinstance(value, GraphValue) for value in inputs.values()):
            raise GraphError("it reads a sequence")
        part = _NodeInputs(node, inputs, {w: builder.constants.get(v) for w, v in inputs.items()})
        model = part.model(versions)
        types = self._types(part, model, name)
        program = base64.b64encode(model.SerializeToString()).decode()
        made = add_external(
            builder, "onnx", program, list(inputs.values()), list(types.items()), name
        )
        self._made.update(dict.fromkeys(made, (part, model, name)))
        found = dict(zip(types, made, strict=True))
        return tuple(found.get(word) for word in node.output)

    def can_run(self, made: Sequence[GraphValue | None]) -> bool:
        """True if it works on zeros; if not, a converter was right to refuse the node."""
        parts = [self._made[value] for value in made if value in self._made]
        try:
            for part, model, name in parts[:1]:
                part.results(model, name, 0)
        except Exception:  # of other libraries
            return False
        return True

    def _types(self, part: _NodeInputs, model: Any, name: str) -> dict[str, TensorType]:
        inferred = {**part.carried(), **part.inferred(model)}
        wanted = [word for word in part.node.output if word]
        types = {w: inferred.get(w) or self.declared.get(w) for w in wanted}
        if any(kind is None for kind in types.values()) and not part.has_schema(model):
            types = dict(zip(wanted, part.tried(model, name), strict=True))
        for word, kind in types.items():
            if kind is None:
                raise GraphError(f"the shape of its result {word!r} is known only when it runs")
        return {word: kind for word, kind in types.items() if kind is not None}


@dataclass(frozen=True)
class _NodeInputs:
    """A node, what it reads, and which of that is known."""

    node: Any
    inputs: Mapping[str, GraphValue]
    known: Mapping[str, Array | None]

    def model(self, versions: Mapping[str, int]) -> Any:
        """A model of this node alone."""
        from onnx import helper

        graph = helper.make_graph(
            [self.node], "part",
            [helper.make_tensor_value_info(w, onnx_type(v.type), v.type.extents)
             for w, v in self.inputs.items()],
            [helper.make_empty_tensor_value_info(word) for word in self.node.output if word],
        )  # fmt: skip
        domains = {**versions, self.node.domain: versions.get(self.node.domain, 1)}
        opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        made = helper.make_model(graph, opset_imports=opsets)
        official = [one for one in opsets if one.domain in ("", "ai.onnx", "ai.onnx.ml")]
        made.ir_version = helper.find_min_ir_version_for(official, ignore_unknown=True)
        return made

    def inferred(self, model: Any) -> dict[str, TensorType]:
        """Types of results, as far as ONNX can tell."""
        from onnx import numpy_helper, shape_inference

        with_numbers = type(model)()
        with_numbers.CopyFrom(model)
        with_numbers.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(array), word)
            for word, array in self.known.items()
            if array is not None and array.size <= _MOST_FOLDED
        )
        try:
            made = shape_inference.infer_shapes(with_numbers, True, True, True)
        except Exception as error:  # of ONNX's own: the model is wrong
            said = str(error).strip().splitlines()[-1].rstrip(".")
            raise GraphError(f"ONNX cannot tell the types of its results: {said}") from error
        return dict(declared_types(made.graph.output))

    def carried(self) -> dict[str, TensorType]:
        """What a loop carries from step to step, if its body says that it keeps its type."""
        if self.node.op_type != "Loop":
            return {}
        (body,) = (attribute.g for attribute in self.node.attribute if attribute.name == "body")
        declared = dict(declared_types(body.output))
        words = zip(self.node.input[2:], body.output[1:], self.node.output, strict=False)
        return {
            result: self.inputs[given].type
            for given, kept, result in words
            if given and result and declared.get(kept.name) == self.inputs[given].type
        }

    def has_schema(self, model: Any) -> bool:
        versions = {entry.domain: entry.version for entry in model.opset_import}
        domain = self.node.domain
        return schema_of(self.node.op_type, versions.get(domain, 1), domain) is not None

    def tried(self, model: Any, name: str) -> list[TensorType]:
        """Types of what comes out if ones go in."""
        made = self.results(model, name, 1)
        return [TensorType(array.shape, array.dtype.name) for array in map(np.asarray, made)]

    def results(self, model: Any, name: str, number: int) -> Sequence[Array]:
        """What comes out if a number goes in wherever nothing is known."""
        feeds = [
            np.full(value.type.extents, number, to_numpy(value.type.dtype))
            if (array := self.known[word]) is None
            else array
            for word, value in self.inputs.items()
        ]
        return first_session(model.SerializeToString(), name)(feeds)


def declared_types(values: Sequence[Any]) -> Iterator[tuple[str, TensorType]]:
    """The values whose types a model states in full."""
    for value in values:
        kind = value.type.tensor_type
        extents = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
        if kind.elem_type and kind.HasField("shape") and min(extents, default=0) >= 0:
            try:
                yield value.name, TensorType(tuple(extents), checked_dtype(kind.elem_type, ""))
            except GraphError:
                continue
