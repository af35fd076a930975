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
    if not _is_native(dtype) or node.predicate is not None or not _fits(node.value, dtype):
        return None
    begin = first_of_run(node.indices[0])
    if begin is None or isinstance(node.value, ir.Broadcast):
        return None
    printer.prelude.need(vector_type(dtype), vector_typedef(dtype) + "\n")
    target = _vector_at(printer, node.buffer, begin, dtype)
    return f"{target} = {_text(printer, node.value)};"


def _is_native(dtype: ir.DType) -> bool:
    power_of_two = dtype.lanes & (dtype.lanes - 1) == 0
    number = dtype.is_integral or dtype.is_float
    return power_of_two and number and not is_small_float(dtype) and not is_promoted(dtype)


def _fits(expr: ir.PrimExpr, dtype: ir.DType) -> bool:
    match expr:
        case ir.BufferLoad():
            plain = expr.predicate is None and expr.dtype is dtype and expr.buffer.dtype.lanes == 1
            return plain and first_of_run(expr.indices[0]) is not None
        case ir.Broadcast():
            return expr.value.dtype.lanes == 1
        case ir.Add() | ir.Sub() | ir.Mul():
            pass
        case ir.Div() if dtype.is_float:
            pass
        case _:
            return False
    both = isinstance(expr.a, ir.Broadcast) and isinstance(expr.b, ir.Broadcast)
    return not both and _fits(expr.a, dtype) and _fits(expr.b, dtype)


def _text(printer: ExpressionPrinter, expr: ir.PrimExpr, nested: bool = False) -> str:
    match expr:
        case ir.BufferLoad():
            begin = first_of_run(expr.indices[0])
            assert begin is not None
            return _vector_at(printer, expr.buffer, begin, expr.dtype)
        case ir.Broadcast():
            return printer.operand(expr.value, 14)
        case ir.Add() | ir.Sub() | ir.Mul() | ir.Div():
            left, right = _text(printer, expr.a, True), _text(printer, expr.b, True)
            text = f"{left} {_SIGNS[type(expr)]} {right}"
            return f"({text})" if nested else text
    raise AssertionError(expr)


def _vector_at(
    printer: ExpressionPrinter, buffer: ir.Buffer, begin: ir.PrimExpr, dtype: ir.DType
) -> str:
    return f"*({vector_type(dtype)} *)&{printer.element(buffer, begin)}"
