"""Operators that ONNX itself defines by others: their bodies, for what we have no converter for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import GraphError
from tilewright.graph import GraphValue


def has_function(op_type: str, version: int, domain: str) -> bool:
    """True if ONNX says the operator in terms of others."""
    schema = schema_of(op_type, version, domain)
    if schema is None:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def function_of(node: Any, version: int, inputs: Sequence[GraphValue | None]) -> Any | None:
    """The body of an operator for a node, its attributes filled in; None if it has none."""
    from onnx import FunctionProto

    schema = schema_of(node.op_type, version, node.domain)
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        types = [_type_proto(value) for value in inputs]
        versions = schema.context_dependent_function_opset_versions
        chosen = max((v for v in versions if v <= version), default=max(versions, default=version))
        try:
            made = schema.get_context_dependent_function_with_opset_version(
                chosen, node.SerializeToString(), types
            )
        except RuntimeError as error:
            raise GraphError(f"ONNX cannot write it as other operators: {error}") from error
    elif schema.has_function:
        versions = schema.function_opset_versions
        chosen = max((v for v in versions if v <= version), default=max(versions))
        made = schema.get_function_with_opset_version(chosen)
    else:
        return None
    function = FunctionProto()
    if isinstance(made, bytes):
        function.ParseFromString(made)
    else:
        function.CopyFrom(made)
    defaults = {a.name: a.default_value for a in schema.attributes.values() if a.default_value.name}
    _fill_in(function.node, {**defaults, **{a.name: a for a in node.attribute}})
    return function


def schema_of(op_type: str, version: int, domain: str) -> Any | None:
    """What ONNX says about an operator; None if it defines none of that name."""
    from onnx import defs

    try:
        return defs.get_schema(op_type, version, domain)
    except Exception:  # of ONNX's own, which has no public class in older versions
        return None


def _type_proto(value: GraphValue | None) -> bytes:
    from onnx import TypeProto, helper

    if value is None:
        return bytes(TypeProto().SerializeToString())
    from tilewright.ir.numpy_bridge import to_numpy

    kind = helper.np_dtype_to_tensor_dtype(to_numpy(value.type.dtype))
    return bytes(helper.make_tensor_type_proto(kind, value.type.extents).SerializeToString())


def check_types(node: Any, version: int, inputs: Sequence[GraphValue | None], what: str) -> None:
    """Insist on one element type for all inputs that ONNX says have the same."""
    schema = schema_of(node.op_type, version, node.domain)
    if schema is None:
        return
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    seen: dict[str, GraphValue] = {}
    for number, value in enumerate(inputs):
        formal = schema.inputs[min(number, len(schema.inputs) - 1)]
        if value is None or formal.type_str not in variables or not formal.is_homogeneous:
            continue
        first = seen.setdefault(formal.type_str, value)
        if first.type.dtype != value.type.dtype:
            raise GraphError(
                f"{what}: its inputs {first.name!r} and {value.name!r} have elements of types "
                f"{first.type.dtype} and {value.type.dtype}, expected one type"
            )


def _fill_in(nodes: Any, attributes: dict[str, Any]) -> None:
    """Attributes that refer to those of the function get their values, or go."""
    for node in nodes:
        kept = []
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                given = attributes.get(attribute.ref_attr_name)
                if given is None:
                    continue
                copy = type(attribute)()
                copy.CopyFrom(given)
                copy.name = attribute.name
                kept.append(copy)
            else:
                if attribute.HasField("g"):
                    _fill_in(attribute.g.node, attributes)
                kept.append(attribute)
        filled = [type(one).FromString(one.SerializeToString()) for one in kept]
        del node.attribute[:]
        node.attribute.extend(filled)
