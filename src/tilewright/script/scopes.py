"""Forms that enclose statements: `with T.attr(...)`, allocations, threads, assertions, bindings."""

from __future__ import annotations

import ast
from typing import Any

from tilewright import ir
from tilewright.ir.stmt import Enclose
from tilewright.script import diagnostics, forms
from tilewright.script.diagnostics import described
from tilewright.script.dtypes import DTypeForm, HandleForm
from tilewright.script.frames import plain_value
from tilewright.script.parser import FORM_BINDERS, FORM_BODIES, STATEMENTS, Parser


@STATEMENTS.of(ast.With)
def _with(parser: Parser, node: ast.With) -> None:
    if len(node.items) > 1:  # `with a, b:` is `with a:` around `with b:`
        inner = ast.copy_location(ast.With(node.items[1:], node.body), node)
        node = ast.copy_location(ast.With(node.items[:1], [inner]), node)
    item = node.items[0]
    form = parser.evaluate(item.context_expr)
    if type(form) in FORM_BODIES:
        FORM_BODIES[type(form)](parser, node, form)
    elif type(form) in FORM_BINDERS:
        target = item.optional_vars
        name = "" if target is None else parser.target_name(target)
        with parser.environment.scope("its `with` has ended"), parser.inside(in_block=False):
            bind = FORM_BINDERS[type(form)](parser, item.context_expr, form, name)
            body = parser.body(node.body)
        parser.emit(bind(body))
    else:
        raise parser.error(
            item.context_expr,
            f"{described(form)} cannot be used with `with`; expected T.block, T.init, T.attr, "
            "T.LetStmt, T.allocate, T.decl_buffer, T.launch_thread or T.Assert",
        )


@FORM_BINDERS.of(forms.LetForm)
def _let(parser: Parser, node: ast.expr, form: forms.LetForm, name: str) -> Enclose:
    value = parser.converted(node, form.value)
    kind = form.type_annotation
    if isinstance(kind, DTypeForm) and not isinstance(kind, HandleForm):
        value = parser.attempt(node, lambda: ir.cast(kind.dtype, value))
    var = form.var
    if var is None:
        var = kind.new_var(name) if isinstance(kind, DTypeForm) else ir.Var(name, value.dtype)
        parser.environment.define(name, var)
    bound = var
    return lambda body: ir.LetStmt(bound, value, body)


@FORM_BINDERS.of(forms.AttrForm)
def _attr(parser: Parser, node: ast.expr, form: forms.AttrForm, name: str) -> Enclose:
    value = parser.converted(node, form.value)
    return lambda body: ir.AttrStmt(form.node, form.attr_key, value, body)


@FORM_BINDERS.of(forms.AssertForm)
def _assert(parser: Parser, node: ast.expr, form: forms.AssertForm, name: str) -> Enclose:
    condition = parser.converted(node, form.condition)
    return lambda body: ir.AssertStmt(condition, form.message, body)


@FORM_BINDERS.of(forms.LaunchThreadForm)
def _launch_thread(
    parser: Parser, node: ast.expr, form: forms.LaunchThreadForm, name: str
) -> Enclose:
    extent = parser.converted(node, form.extent)
    dom = ir.Range(ir.const(0, extent.dtype), extent)
    if isinstance(form.thread, str):
        var = ir.Var(name or form.thread, extent.dtype)
        thread = ir.IterVar(dom, var, ir.IterType.THREAD_INDEX, form.thread)
    else:
        known = parser.threads.get(form.thread) if isinstance(form.thread, ir.Var) else form.thread
        if known is None:
            raise parser.error(node, 'T.launch_thread needs "threadIdx.x" or a T.env_thread')
        thread = ir.IterVar(dom, known.var, ir.IterType.THREAD_INDEX, known.thread_tag)
    parser.threads[thread.var] = thread
    if name:
        parser.environment.define(name, thread.var)
    return lambda body: ir.AttrStmt(thread, "thread_extent", extent, body)


def _extents(parser: Parser, node: ast.expr, extents: Any) -> tuple[ir.PrimExpr, ...]:
    items = extents if isinstance(extents, (tuple, list)) else (extents,)
    return tuple(parser.converted(node, extent) for extent in items)


@FORM_BINDERS.of(forms.AllocateForm)
def _allocate(parser: Parser, node: ast.expr, form: forms.AllocateForm, name: str) -> Enclose:
    dtype = ir.DType(form.dtype)
    var = ir.Var(name, ir.HANDLE, ir.PointerType(dtype, form.scope))
    extents = _extents(parser, node, form.extents)
    condition = parser.converted(node, form.condition)
    annotations = plain_value(form.annotations)
    parser.environment.define(name, var)
    return lambda body: ir.Allocate(var, dtype, extents, condition, body, annotations)


@FORM_BINDERS.of(forms.AllocateConstForm)
def _allocate_const(
    parser: Parser, node: ast.expr, form: forms.AllocateConstForm, name: str
) -> Enclose:
    dtype = ir.DType(form.dtype)
    var = ir.Var(name, ir.HANDLE, ir.PointerType(dtype))
    extents = _extents(parser, node, form.extents)
    annotations = plain_value(form.annotations)
    data = tuple(plain_value(value) for value in form.data)
    parser.environment.define(name, var)
    return lambda body: ir.AllocateConst(var, dtype, extents, data, body, annotations)


@FORM_BINDERS.of(forms.DeclBufferForm)
def _decl_buffer(parser: Parser, node: ast.expr, form: forms.DeclBufferForm, name: str) -> Enclose:
    """A named view of memory; without `data` the memory is allocated as well."""
    if not name:
        raise parser.error(node, diagnostics.needs_a_name(form))
    buffer = parser.declare(parser.attempt(node, lambda: form.decl.build(name)))

    def bind(body: ir.Stmt) -> ir.Stmt:
        declared = ir.DeclBuffer(buffer, body)
        if form.decl.data is not None:
            return declared
        return ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.TRUE, declared)

    return bind
