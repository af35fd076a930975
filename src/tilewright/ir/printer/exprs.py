"""Expressions, regions and annotation values as script text."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.ir import nodes as ir, script_forms as forms
from tilewright.ir.node import Node, replace
from tilewright.ir.printer.scope import Scope
from tilewright.target import Target

Written = tuple[str, int]  # the text and how strongly it holds together
Writer = Callable[["ExprPrinter", Any], Written]
_ITER_TYPE_NAMES = {kind: name for name, kind in forms.ITER_TYPES.items()}
_extensions: dict[type[Node], Writer] = {}


def register_expr_printer(
    node_class: type[Node], write: Callable[[Any, Callable[[Any], str]], str]
) -> None:
    """Let another layer's expression print: `write(node, text_of)` gives its text."""
    _extensions[node_class] = lambda printer, node: (write(node, printer.text), forms.PREC_ATOM)


def quote(text: str) -> str:
    """A string literal in double quotes."""
    return json.dumps(text)


def number(value: float) -> str:
    """A float with all the digits it needs to be read back exactly."""
    if math.isinf(value) or math.isnan(value):
        return quote(str(value))
    if value == 0 and math.copysign(1, value) < 0:
        return "-0.0"  # `-0` would be the integer 0
    return f"{value:.17g}"


class ExprPrinter:
    """Writes expressions with the names of a scope."""

    def __init__(self, scope: Scope, return_types: Mapping[str, str] | None = None) -> None:
        self.scope = scope
        self.return_types = return_types or {}  # of the functions in the same module

    def text(self, node: Any) -> str:
        """The text of an expression, region, or value of an annotation."""
        return self.write(node)[0]

    def texts(self, nodes: Sequence[Any]) -> str:
        """Several expressions, separated by commas."""
        return ", ".join(self.text(node) for node in nodes)

    def tuple_of(self, nodes: Sequence[Any]) -> str:
        """A Python tuple."""
        return f"({self.text(nodes[0])},)" if len(nodes) == 1 else f"({self.texts(nodes)})"

    def write(self, node: Any) -> Written:
        """The text of a node and its binding strength."""
        for node_class in type(node).__mro__:
            writer = _WRITERS.get(node_class) or _extensions.get(node_class)
            if writer is not None:
                return writer(self, node)
        if dataclasses.is_dataclass(node) and not isinstance(node, type):
            return _dataclass(self, node)
        return repr(node) if not isinstance(node, Node) else _fields(self, node), forms.PREC_ATOM

    def operand(self, node: Any, at_least: int) -> str:
        """The text of an operand, in parentheses where it binds more weakly than `at_least`."""
        text, strength = self.write(node)
        return text if strength >= at_least else f"({text})"

    def call(self, name: str, *args: str) -> Written:
        return f"T.{name}({', '.join(args)})", forms.PREC_ATOM

    def name(self, node: Node, hint: str) -> str:
        """The name of a variable or buffer; one that nobody defined is named on the spot."""
        return self.scope.text_of(node) or self.scope.define(node, hint)

    def index(self, expr: ir.PrimExpr) -> str:
        """One index of a buffer access; contiguous and strided vectors become slices."""
        if isinstance(expr, ir.Ramp) and expr.base.dtype.lanes == 1:
            sliced = self._ramp_slice(expr)
            if sliced is not None:
                return sliced
        return self.text(expr)

    def _ramp_slice(self, ramp: ir.Ramp) -> str | None:
        stride = ramp.stride
        if (
            not isinstance(stride, ir.IntImm)
            or stride.value <= 0
            or stride.dtype is not ramp.base.dtype
        ):
            return None
        end = forms.end_of(ramp.base, ir.multiply(stride, ramp.lanes))
        if end is None or ramp.lanes == 1:
            return None
        step = "" if stride.value == 1 else f":{self.text(stride)}"
        return f"{self.text(ramp.base)}:{self.text(end)}{step}"

    def access(self, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr]) -> str:
        """`A[i, j]`."""
        inner = ", ".join(map(self.index, indices)) if indices else "()"
        return f"{self.name(buffer, buffer.name)}[{inner}]"


def _fields(printer: ExprPrinter, node: Node) -> str:
    values = ", ".join(printer.text(getattr(node, name)) for name in node.__struct_fields__)
    return f"{type(node).__name__}({values})"


def _dataclass(printer: ExprPrinter, value: Any) -> Written:
    """An attribute value of a registered type, with the fields that are not as by default."""
    fields = [
        f"{field.name}={printer.text(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"I.attribute({', '.join([quote(type(value).__name__), *fields])})", forms.PREC_ATOM


def _named(printer: ExprPrinter, node: ir.Var | ir.Buffer) -> Written:
    return printer.name(node, node.name), forms.PREC_ATOM


def _int_imm(printer: ExprPrinter, node: ir.IntImm) -> Written:
    if node.dtype is ir.INT32:
        return str(node.value), forms.PREC_SIGN if node.value < 0 else forms.PREC_ATOM
    if node.dtype is ir.BOOL:
        return f"T.bool({bool(node.value)})", forms.PREC_ATOM
    return printer.call(node.dtype, str(node.value))


def _binary(printer: ExprPrinter, node: ir.BinaryOp) -> Written:
    """Sums can be long: from the innermost left operand outwards, each step looks at one node."""
    spine = [node]
    while isinstance(spine[-1].a, ir.BinaryOp):
        spine.append(spine[-1].a)
    left = spine[-1].a
    written = printer.write(left)
    for each in reversed(spine):
        alone = replace(each, a=left)
        written = _with_right_operand(printer, alone, written)
        left = ir.Var("left", alone.dtype)  # only its type matters, and asking for it is quick
    return written


def _with_right_operand(printer: ExprPrinter, node: ir.BinaryOp, left: Written) -> Written:
    """A node whose left operand is written already."""
    text, held = left
    infix = forms.INFIX.get(type(node))
    if infix is not None and forms.builds(infix[2], node):
        operator, strength, _ = infix
        if held < strength + (strength == forms.PREC_COMPARE):
            text = f"({text})"
        text += f" {operator} {printer.operand(node.b, strength + 1)}"
        return text, strength
    prefix = forms.PREFIX.get(type(node))
    short = prefix is not None and forms.builds(prefix[1], node)
    name = prefix[0] if prefix is not None and short else type(node).__name__
    return printer.call(name, text, printer.text(node.b))


def _not(printer: ExprPrinter, node: ir.Not) -> Written:
    made = ir.logical_not(node.a) if node.a.dtype.is_bool else None
    if isinstance(made, ir.Not) and made.a is node.a:
        return f"not {printer.operand(node.a, forms.PREC_NOT)}", forms.PREC_NOT
    return printer.call("Not", printer.text(node.a))


def _plain(printer: ExprPrinter, node: ir.PrimExpr) -> Written:
    """`T.Class(...)` with all fields in order."""
    fields = (getattr(node, name) for name in node.__struct_fields__)
    return printer.call(type(node).__name__, *map(printer.text, fields))


def _let(printer: ExprPrinter, node: ir.Let) -> Written:
    where = f"where={{{printer.text(node.var)}: {printer.text(node.value)}}}"
    return printer.call("Let", printer.text(node.body), where)


def _call(printer: ExprPrinter, node: ir.Call) -> Written:
    if isinstance(node.op, ir.GlobalVar):
        return _module_call(printer, node, node.op)
    op = node.op
    dtype_first = op.dtype_first or op.script_name in forms.DTYPE_ONLY
    args: tuple[Any, ...] = (str(node.dtype), *node.args) if dtype_first else node.args
    if forms.calls_back(node, args):
        return printer.call(op.script_name, *map(printer.text, args))
    return printer.call(
        "call_intrin", quote(node.dtype), quote(op.name), *map(printer.text, node.args)
    )


def _module_call(printer: ExprPrinter, node: ir.Call, callee: ir.GlobalVar) -> Written:
    if node.dtype == printer.return_types.get(callee.name, "void"):
        return f"{printer.text(callee)}({printer.texts(node.args)})", forms.PREC_ATOM
    return printer.call(
        "Call", quote(node.dtype), printer.text(callee), f"[{printer.texts(node.args)}]"
    )


def _buffer_load(printer: ExprPrinter, node: ir.BufferLoad) -> Written:
    if node.predicate is None:
        return printer.access(node.buffer, node.indices), forms.PREC_ATOM
    buffer = printer.name(node.buffer, node.buffer.name)
    mask = printer.text(node.predicate)
    return f"{buffer}.vload([{printer.texts(node.indices)}], predicate={mask})", forms.PREC_ATOM


def _buffer_region(printer: ExprPrinter, node: ir.BufferRegion) -> Written:
    """Points and `begin:end`."""
    parts = []
    for dom in node.region:
        part = printer.text(dom.min)
        if not ir.is_one(dom.extent):
            end = forms.end_of(dom.min, dom.extent)
            part += f":{printer.text(dom.min + dom.extent if end is None else end)}"
        parts.append(part)
    inner = ", ".join(parts) or "()"
    return f"{printer.name(node.buffer, node.buffer.name)}[{inner}]", forms.PREC_ATOM


def _iter_var(printer: ExprPrinter, node: ir.IterVar) -> Written:
    dom = "None" if node.dom is None else printer.text(node.dom)
    kind = quote(_ITER_TYPE_NAMES[node.iter_type])
    return printer.call("iter_var", printer.text(node.var), dom, kind, quote(node.thread_tag))


def _comm_reducer(printer: ExprPrinter, node: ir.CommReducer) -> Written:
    with printer.scope.frame():
        names = [printer.scope.define(var, var.name) for var in (*node.lhs, *node.rhs)]
        result = printer.texts(node.result)
    if len(node.result) > 1:
        result = f"({result})"
    function = f"lambda {', '.join(names)}: {result}"
    return printer.call("comm_reducer", function, f"[{printer.texts(node.identity_element)}]")


def _target(printer: ExprPrinter, target: Target) -> Written:
    return printer.call("target", printer.text(_described(target.export())))


def _described(value: Any) -> Any:
    """A description of a target without what says nothing: empty tags."""
    if not isinstance(value, dict):
        return value
    return {key: _described(item) for key, item in value.items() if item != ""}


def _reduce(printer: ExprPrinter, node: ir.Reduce) -> Written:
    return printer.call(
        "reduce",
        printer.text(node.combiner),
        f"source=[{printer.texts(node.source)}]",
        f"init=[{printer.texts(node.init)}]",
        f"axis=[{printer.texts(node.axis)}]",
        f"condition={printer.text(node.condition)}",
        f"value_index={node.value_index}",
    )


def _mapping(printer: ExprPrinter, values: Mapping[Any, Any]) -> Written:
    # By name, as TVM does: the order in which annotations were made carries no meaning.
    ordered = sorted(values.items(), key=lambda item: str(item[0]))
    items = (f"{printer.text(key)}: {printer.text(value)}" for key, value in ordered)
    return "{" + ", ".join(items) + "}", forms.PREC_ATOM


def dtype_call(var: ir.Var) -> str:
    """The expression that makes a variable like `var`, e.g. `T.int32()` or `T.handle("int8")`."""
    if var.dtype is ir.HANDLE and var.type_annotation is not None:
        pointer = var.type_annotation
        return f"T.handle({quote(pointer.element_type)}, {quote(pointer.storage_scope)})"
    return f"T.{var.dtype}({'is_size_var=True' if isinstance(var, ir.SizeVar) else ''})"


_WRITERS: dict[type, Writer] = {
    ir.Var: _named,
    ir.IntImm: _int_imm,
    ir.FloatImm: lambda printer, node: printer.call(node.dtype, number(node.value)),
    ir.StringImm: lambda printer, node: (quote(node.value), forms.PREC_ATOM),
    ir.BinaryOp: _binary,
    ir.Not: _not,
    **dict.fromkeys((ir.Cast, ir.Select, ir.Ramp, ir.Broadcast, ir.Shuffle), _plain),
    ir.Let: _let,
    ir.Call: _call,
    ir.GlobalVar: lambda printer, node: (f"Module.{node.name}", forms.PREC_ATOM),
    ir.BufferLoad: _buffer_load,
    ir.Buffer: _named,
    ir.BufferRegion: _buffer_region,
    ir.Range: lambda printer, node: printer.call(
        "Range", printer.texts((node.min, node.min + node.extent))
    ),
    ir.IterVar: _iter_var,
    ir.PointerType: lambda printer, node: printer.call(
        "handle", quote(node.element_type), quote(node.storage_scope)
    ),
    ir.CommReducer: _comm_reducer,
    Target: _target,
    ir.Reduce: _reduce,
    ir.DType: lambda printer, dtype: (quote(dtype), forms.PREC_ATOM),
    str: lambda printer, text: (quote(text), forms.PREC_ATOM),
    bool: lambda printer, flag: (f"T.bool({flag})", forms.PREC_ATOM),
    int: lambda printer, value: (str(value), forms.PREC_ATOM if value >= 0 else forms.PREC_SIGN),
    float: lambda printer, value: (
        repr(value) if math.isfinite(value) else f"float({quote(str(value))})",
        forms.PREC_ATOM,
    ),
    tuple: lambda printer, values: (f"[{printer.texts(values)}]", forms.PREC_ATOM),
    list: lambda printer, values: (f"[{printer.texts(values)}]", forms.PREC_ATOM),
    dict: _mapping,
}
