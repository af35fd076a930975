"""Loops, branches, assertions and returns."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from tilewright import ir
from tilewright.ir import intrinsics
from tilewright.script import diagnostics, forms, statements
from tilewright.script.assignments import assign_python
from tilewright.script.diagnostics import described, verb_for
from tilewright.script.parser import STATEMENTS, Parser
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
