"""Assignments: stores into buffers, names for program values and for Python values."""

from __future__ import annotations

import ast
from typing import Any

from tilewright import ir
from tilewright.script import diagnostics, forms
from tilewright.script.access import index_buffer
from tilewright.script.diagnostics import described
from tilewright.script.dtypes import DTypeForm, HandleForm
from tilewright.script.parser import (
    FORM_ASSIGNMENTS,
    FORM_BINDERS,
    FORM_STATEMENTS,
    STATEMENTS,
    Parser,
)
from tilewright.support.suggestions import did_you_mean

# The operators that may change an element of a buffer in place.
_STORED = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


@STATEMENTS.of(ast.Expr)
def _expression(parser: Parser, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring or a remark
    value = parser.evaluate(node.value)
    if isinstance(value, forms.Form):
        _form_statement(parser, node.value, value)
    elif isinstance(value, ir.PrimExpr):
        parser.emit(ir.Evaluate(value))
    elif value is not None:
        raise parser.error(node.value, diagnostics.not_an_expression(value))


def _form_statement(parser: Parser, node: ast.expr, form: forms.Form) -> None:
    handler = FORM_STATEMENTS.get(type(form))
    if handler is not None:
        handler(parser, node, form)
    elif type(form) in FORM_BINDERS:
        parser.emit(FORM_BINDERS[type(form)](parser, node, form, ""))
    else:
        raise parser.error(node, diagnostics.needs_a_name(form))


@FORM_STATEMENTS.of(forms.EvaluateForm)
def _evaluate(parser: Parser, node: ast.expr, form: forms.EvaluateForm) -> None:
    parser.emit(ir.Evaluate(parser.converted(node, form.value)))


@FORM_STATEMENTS.of(forms.StoreForm)
def _vector_store(parser: Parser, node: ast.expr, form: forms.StoreForm) -> None:
    indices = tuple(form.indices)
    wanted = form.buffer.dtype.with_lanes(form.buffer.dtype.lanes * indices[-1].dtype.lanes)
    value = parser.fit(node, form.buffer, wanted, form.value)
    parser.emit(ir.BufferStore(form.buffer, value, indices, form.predicate))


@STATEMENTS.of(ast.Assign)
def _assign(parser: Parser, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        raise parser.error(node, diagnostics.unsupported("an assignment to several targets"))
    target, value = node.targets[0], parser.value(node.value)
    if isinstance(target, ast.Subscript):
        _store(parser, target, value, node.value)
    else:
        _bind(parser, target, value, node.value)


@STATEMENTS.of(ast.AnnAssign)
def _annotated(parser: Parser, node: ast.AnnAssign) -> None:
    """`x: T.int32 = value` is a variable of the program, whatever the value is."""
    if node.value is None:
        raise parser.error(node, "a declaration needs a value: `x: T.int32 = ...`")
    kind, value = parser.evaluate(node.annotation), parser.value(node.value)
    name = parser.target_name(node.target)
    if not isinstance(kind, DTypeForm):
        raise parser.error(node.annotation, "expected a type such as T.int32 or T.handle")
    expr = parser.converted(node.value, value)
    if not isinstance(kind, HandleForm):
        if isinstance(value, (int, float)):
            expr = parser.attempt(node.value, lambda: ir.const(value, kind.dtype))
        expr = parser.attempt(node.value, lambda: ir.cast(kind.dtype, expr))
    _let(parser, kind.new_var(name), expr)


@STATEMENTS.of(ast.AugAssign)
def _augmented(parser: Parser, node: ast.AugAssign) -> None:
    target = node.target
    if isinstance(target, ast.Attribute) or (
        isinstance(target, ast.Subscript) and not isinstance(node.op, _STORED)
    ):
        raise parser.error(node, diagnostics.unsupported("this assignment"))
    value = parser.value(ast.copy_location(ast.BinOp(target, node.op, node.value), node))
    if isinstance(target, ast.Subscript):
        _store(parser, target, value, node.value)
    elif isinstance(value, ir.PrimExpr):
        raise parser.error(
            node,
            f"{target.id!r} is a variable of the program and keeps its value; use a buffer of "
            "shape (1,) for a value that changes",
        )
    else:
        parser.environment.assign(target.id, value)


def _store(parser: Parser, target: ast.Subscript, value: Any, value_node: ast.expr) -> None:
    buffer = _stored_buffer(parser, target)
    if not isinstance(buffer, ir.Buffer):
        told = f"only elements of buffers can be assigned to, this is {described(buffer)}"
        raise parser.error(target.value, told)
    index = parser.evaluate(target.slice)
    indices = index if isinstance(index, tuple) else (index,)
    found = parser.attempt(target, lambda: index_buffer(buffer, indices))
    place = parser.as_vector(target, found)
    stored = parser.fit(value_node, buffer, place.dtype, value)
    parser.emit(ir.BufferStore(buffer, stored, place.indices))


def _stored_buffer(parser: Parser, target: ast.Subscript) -> Any:
    names = parser.environment
    if isinstance(target.value, ast.Name) and target.value.id not in names:
        known = [name for name in names.own_names() if isinstance(names.lookup(name), ir.Buffer)]
        hint = did_you_mean(target.value.id, known, list_all=False) or ";"
        raise parser.error(
            target.value,
            f"assignment to an element of {target.value.id!r}, which is not defined{hint} buffers "
            "come from T.alloc_buffer, T.match_buffer or a parameter `A: T.Buffer(...)`",
        )
    return parser.evaluate(target.value)


def _bind(parser: Parser, target: ast.expr, value: Any, node: ast.expr) -> None:
    """`name = value`, by what the value is."""
    if type(value) in FORM_ASSIGNMENTS:
        FORM_ASSIGNMENTS[type(value)](parser, target, value, node)
    elif type(value) in FORM_BINDERS:
        name = parser.target_name(target)
        parser.emit(FORM_BINDERS[type(value)](parser, node, value, name))
    elif isinstance(value, forms.Form):
        raise parser.error(node, diagnostics.not_an_expression(value))
    elif isinstance(value, HandleForm):
        name = parser.target_name(target)
        parser.environment.define(name, value.new_var(name))
    elif isinstance(value, ir.IterVar):
        name = parser.target_name(target)
        var = value.var if value.var.name else ir.replace(value.var, name=name)
        parser.threads[var] = ir.replace(value, var=var)
        parser.environment.define(name, var)
    elif isinstance(value, ir.PrimExpr) and not isinstance(value, (ir.IntImm, ir.FloatImm)):
        _bind_expression(parser, target, value)
    else:
        assign_python(parser, target, value)


def _bind_expression(parser: Parser, target: ast.expr, value: ir.PrimExpr) -> None:
    name = parser.target_name(target)
    if isinstance(value, ir.Var) and not value.name:  # made by `T.int32()` just now
        parser.environment.define(name, ir.replace(value, name=name))
        return
    _let(parser, ir.Var(name, value.dtype), value)


def _let(parser: Parser, var: ir.Var, value: ir.PrimExpr) -> None:
    parser.environment.define(var.name, var)
    parser.emit(lambda body: ir.LetStmt(var, value, body))


@FORM_ASSIGNMENTS.of(forms.BufferDecl)
def _declare_buffer(
    parser: Parser, target: ast.expr, decl: forms.BufferDecl, node: ast.expr
) -> None:
    name = parser.target_name(target)
    parser.declare(parser.attempt(node, lambda: decl.build(name)))


@FORM_ASSIGNMENTS.of(forms.MetaVar)
def _meta_var(parser: Parser, target: ast.expr, form: forms.MetaVar, node: ast.expr) -> None:
    assign_python(parser, target, form.value)


def assign_python(parser: Parser, target: ast.expr, value: Any) -> None:
    """Give names to Python values; tuples are taken apart."""
    if isinstance(target, (ast.Tuple, ast.List)):
        values = parser.attempt(target, lambda: list(value))
        if len(values) != len(target.elts):
            message = f"{len(values)} values for {len(target.elts)} names"
            raise parser.error(target, message)
        for element, item in zip(target.elts, values, strict=True):
            if isinstance(item, ir.Var) and not item.name:  # made by `T.int32()` just now
                _bind_expression(parser, element, item)
            else:
                assign_python(parser, element, item)
        return
    parser.environment.assign(parser.target_name(target), value)
