"""Loops, branches, assertions and returns, and forms that enclose statements."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from tilewright import ir
from tilewright.ir import intrinsics
from tilewright.ir.stmt import Enclose
from tilewright.script import diagnostics, forms, statements
from tilewright.script.assignments import assign_python
from tilewright.script.diagnostics import described, verb_for
from tilewright.script.dtypes import DTypeForm, HandleForm
from tilewright.script.frames import plain_value
from tilewright.script.parser import FORM_BINDERS, FORM_BODIES, STATEMENTS, Parser
from tilewright.support.text import counted


@STATEMENTS.of(ast.For)
def _for(parser: Parser, node: ast.For) -> None:
    if node.orelse:
        raise parser.error(node.orelse[0], diagnostics.unsupported("`else` of a loop"))
    iterable = _loop_form(parser, node.iter)
    if isinstance(iterable, forms.LoopForm):
        parser.emit(_loop_nest(parser, node, iterable))
    else:
        _unrolled_for(parser, node, iterable)


def _loop_form(parser: Parser, node: ast.expr) -> Any:
    """What is looped over; `range` of a script is a loop, not a list of numbers."""
    if isinstance(node, ast.Call) and parser.evaluate(node.func) is builtins.range:
        args = [parser.value(arg) for arg in node.args]
        if len(args) > 2 or not args:
            message = "range takes (stop) or (start, stop); loops of TensorIR have no step"
            raise parser.error(node, message)
        return parser.attempt(node, lambda: statements.serial(*args))
    value = parser.evaluate(node)
    return value.value if isinstance(value, forms.MetaVar) else value


def _loop_nest(parser: Parser, node: ast.For, form: forms.LoopForm) -> ir.Stmt:
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    if len(targets) != len(form.ranges):
        named, wanted = len(targets), counted(len(form.ranges), "loop")
        told = f"{counted(named, 'loop variable')} {verb_for(named)} named for {wanted}"
        raise parser.error(node.target, told)
    loops: list[tuple[ir.Var, ir.Range]] = []
    with parser.environment.scope("its loop has ended"), parser.inside(in_block=False):
        for target, loop_range in zip(targets, form.ranges, strict=True):
            var = ir.Var(parser.target_name(target), loop_range.extent.dtype)
            parser.environment.define(var.name, var)
            parser.loop_ranges[var] = loop_range
            parser.loop_levels[var] = len(parser.blocks)
            loops.append((var, loop_range))
        body = parser.body(node.body)
    for var, loop_range in reversed(loops):
        body = _loop(form, var, loop_range, body)
    return body


def _unrolled_for(parser: Parser, node: ast.For, iterable: Any) -> None:
    """A loop over Python values: its body is parsed once for each of them."""
    if isinstance(iterable, (ir.PrimExpr, ir.Buffer, forms.Form)) or not hasattr(
        iterable, "__iter__"
    ):
        raise parser.error(
            node.iter,
            f"cannot loop over {described(iterable)}; expected range(...), T.grid(...), "
            "T.serial(...), T.parallel(...), T.vectorized(...), T.unroll(...), "
            "T.thread_binding(...) or a Python list",
        )
    for value in iterable:
        with parser.environment.scope():
            assign_python(parser, node.target, value)
            parser.statements(node.body)


@STATEMENTS.of(ast.While)
def _while(parser: Parser, node: ast.While) -> None:
    condition = parser.condition(node.test)
    with parser.inside(in_block=False), parser.under_condition():
        parser.emit(ir.While(ir.convert(condition), parser.body(node.body)))


@STATEMENTS.of(ast.If)
def _if(parser: Parser, node: ast.If) -> None:
    condition = parser.condition(node.test)
    if isinstance(condition, bool):  # decided while the program is being built
        parser.statements(node.body if condition else node.orelse)
        return
    with parser.inside(in_block=False), parser.under_condition():
        then_case = parser.body(node.body)
        else_case = parser.body(node.orelse) if node.orelse else None
    parser.emit(ir.IfThenElse(condition, then_case, else_case))


@STATEMENTS.of(ast.Assert)
def _assert(parser: Parser, node: ast.Assert) -> None:
    condition = parser.condition(node.test)
    message = parser.evaluate(node.msg) if node.msg is not None else "assertion failed"
    if isinstance(condition, bool):
        if not condition:
            raise parser.error(node, f"assertion does not hold: {message}")
        return
    parser.emit(lambda body: ir.AssertStmt(condition, str(message), body))


@STATEMENTS.of(ast.Return)
def _return(parser: Parser, node: ast.Return) -> None:
    if node.value is not None:
        parser.emit(ir.Evaluate(intrinsics.ret(parser.expr(node.value))))


@STATEMENTS.of(ast.Pass)
def _pass(parser: Parser, node: ast.Pass) -> None:
    parser.emit(ir.no_op())


def _loop(form: forms.LoopForm, var: ir.Var, loop_range: ir.Range, body: ir.Stmt) -> ir.Stmt:
    thread = None
    if form.kind == ir.ForKind.THREAD_BINDING and form.thread is not None:
        thread_var = ir.Var(form.thread, var.dtype)
        thread = ir.IterVar(None, thread_var, ir.IterType.THREAD_INDEX, form.thread)
    return ir.For(
        var, loop_range.min, loop_range.extent, form.kind, body, thread, dict(form.annotations)
    )


# --- forms that enclose statements: `with T.attr(...)`, allocations, threads, bindings ----------


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
def _assert_form(parser: Parser, node: ast.expr, form: forms.AssertForm, name: str) -> Enclose:
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


def _converted_extents(parser: Parser, node: ast.expr, extents: Any) -> tuple[ir.PrimExpr, ...]:
    items = extents if isinstance(extents, (tuple, list)) else (extents,)
    return tuple(parser.converted(node, extent) for extent in items)


@FORM_BINDERS.of(forms.AllocateForm)
def _allocate(parser: Parser, node: ast.expr, form: forms.AllocateForm, name: str) -> Enclose:
    dtype = ir.DType(form.dtype)
    var = ir.Var(name, ir.HANDLE, ir.PointerType(dtype, form.scope))
    extents = _converted_extents(parser, node, form.extents)
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
    extents = _converted_extents(parser, node, form.extents)
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
