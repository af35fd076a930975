"""Vector statements in the vector extension of GCC and Clang, where it says the same directly.

That is arithmetic on consecutive elements: loads and stores of whole vectors, scalars that spread
over all lanes, and + - * /. Everything else is printed as a loop over the lanes.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.codegen.c.expressions import ExpressionPrinter
from tilewright.codegen.c.types import is_promoted, is_small_float, vector_type, vector_typedef
from tilewright.codegen.program_facts import first_of_run

_SIGNS = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.Div: "/"}


def vector_store(printer: ExpressionPrinter, node: ir.BufferStore) -> str | None:
    """The statement as one vector assignment, or None where it is not that simple."""
    dtype = node.value.dtype
    power_of_two = dtype.lanes & (dtype.lanes - 1) == 0
    is_number = dtype.is_integral or dtype.is_float
    if not power_of_two or not is_number or is_small_float(dtype) or is_promoted(dtype):
        return None
    if node.predicate is not None or isinstance(node.value, ir.Broadcast):
        return None
    value = _text(printer, node.value, dtype)
    target = _vector_at(printer, node, dtype) if value is not None else None
    if target is None:
        return None
    printer.prelude.need(vector_type(dtype), vector_typedef(dtype) + "\n")
    return f"{target} = {value};"


def _text(
    printer: ExpressionPrinter, expr: ir.PrimExpr, dtype: ir.DType, nested: bool = False
) -> str | None:
    """A value of that type, or None where it is not that simple."""
    match expr:
        case ir.BufferLoad(predicate=None) if expr.dtype is dtype and expr.buffer.dtype.lanes == 1:
            return _vector_at(printer, expr, dtype)
        case ir.Broadcast(value=value) if value.dtype.lanes == 1:
            return printer.operand(value, 14)
        case ir.BinaryOp(a=a, b=b) if type(expr) in _SIGNS:
            both = isinstance(a, ir.Broadcast) and isinstance(b, ir.Broadcast)
            if both or (isinstance(expr, ir.Div) and not dtype.is_float):
                return None
            left, right = (_text(printer, operand, dtype, nested=True) for operand in (a, b))
            if left is None or right is None:
                return None
            text = f"{left} {_SIGNS[type(expr)]} {right}"
            return f"({text})" if nested else text
    return None


def _vector_at(
    printer: ExpressionPrinter, node: ir.BufferLoad | ir.BufferStore, dtype: ir.DType
) -> str | None:
    begin = first_of_run(node.indices[0])
    if begin is None:
        return None
    return f"*({vector_type(dtype)} *)&{printer.element(node.buffer, begin)}"
