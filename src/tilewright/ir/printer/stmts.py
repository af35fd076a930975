"""Statements as script text, one method for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import nodes as ir
from tilewright.ir.printer.base import StmtPrinter, buffer_args, prints
from tilewright.ir.printer.exprs import quote
from tilewright.ir.script_forms import end_of
from tilewright.ir.visit import uses_var

_LOOP_FORMS = {
    ir.ForKind.SERIAL: "serial",
    ir.ForKind.PARALLEL: "parallel",
    ir.ForKind.VECTORIZED: "vectorized",
    ir.ForKind.UNROLLED: "unroll",
    ir.ForKind.THREAD_BINDING: "thread_binding",
}


@prints(ir.SeqStmt)
def _seq(printer: StmtPrinter, node: ir.SeqStmt, tail: bool) -> None:
    last = len(node.seq) - 1
    for position, child in enumerate(node.seq):
        printer.stmt(child, tail and position == last)


@prints(ir.BufferStore)
def _buffer_store(printer: StmtPrinter, node: ir.BufferStore, tail: bool) -> None:
    if node.predicate is None:
        printer.line(f"{printer.access(node.buffer, node.indices)} = {printer.text(node.value)}")
        printer.scope.mark(node)
        return
    buffer = printer.name(node.buffer, node.buffer.name)
    args = f"[{printer.texts(node.indices)}], {printer.text(node.value)}"
    printer.line(f"{buffer}.vstore({args}, predicate={printer.text(node.predicate)})")


@prints(ir.For)
def _for(printer: StmtPrinter, node: ir.For, tail: bool) -> None:
    nest = _grid_nest(printer, node)
    with printer.scope.frame():
        if len(nest) > 1:
            extents = printer.texts([loop.extent for loop in nest])
            header = f"T.grid({extents})"
        else:
            header = _loop_form(printer, node)
        names = [printer.define(loop.loop_var) for loop in nest]
        printer.line(f"for {', '.join(names)} in {header}:")
        _mark_loops(printer, nest, names)
        printer.loops.update((loop.loop_var, loop) for loop in nest)
        printer.block_of(nest[-1].body)


def _mark_loops(printer: StmtPrinter, nest: Sequence[ir.For], names: Sequence[str]) -> None:
    """A loop of its own is the whole line, one of a grid its name."""
    if len(nest) == 1:
        printer.scope.mark(nest[0])
        return
    column = len("for ")
    for loop, name in zip(nest, names, strict=True):
        printer.scope.mark(loop, column, column + len(name))
        column += len(name) + len(", ")


def _grid_nest(printer: StmtPrinter, node: ir.For) -> list[ir.For]:
    """The loops that one `T.grid` can stand for, from `node` inwards."""
    nest: list[ir.For] = []
    loop: ir.Stmt = node
    while isinstance(loop, ir.For) and loop.kind == ir.ForKind.SERIAL and ir.is_zero(loop.min):
        if loop.thread_binding is not None or loop.annotations:
            break
        if nest and (loop in printer.pending or _depends_on(loop.extent, nest)):
            break
        nest.append(loop)
        loop = loop.body
    return nest or [node]


def _depends_on(extent: ir.PrimExpr, nest: Sequence[ir.For]) -> bool:
    variables = {loop.loop_var for loop in nest}
    return uses_var(extent, lambda var: var in variables)


def _loop_form(printer: StmtPrinter, node: ir.For) -> str:
    end = node.extent if ir.is_zero(node.min) else end_of(node.min, node.extent)
    if end is None:
        end = node.min + node.extent
    bounds = (end,) if ir.is_zero(node.min) else (node.min, end)
    name = _LOOP_FORMS[node.kind]
    if name == "serial" and not node.annotations:
        return f"range({printer.texts(bounds)})"
    thread = ""
    if node.thread_binding is not None:
        thread = f", thread={quote(node.thread_binding.thread_tag)}"
    return f"T.{name}({printer.texts(bounds)}{thread}{printer.annotations(node.annotations)})"


@prints(ir.While)
def _while(printer: StmtPrinter, node: ir.While, tail: bool) -> None:
    printer.line(f"while {printer.text(node.condition)}:")
    printer.block_of(node.body)


@prints(ir.IfThenElse)
def _if_then_else(printer: StmtPrinter, node: ir.IfThenElse, tail: bool) -> None:
    printer.line(f"if {printer.text(node.condition)}:")
    printer.block_of(node.then_case)
    if node.else_case is not None:
        printer.line("else:")
        printer.block_of(node.else_case)


def _scoped(
    printer: StmtPrinter,
    tail: bool,
    plain: Callable[[], str],
    nested: Callable[[], str],
    body: ir.Stmt,
) -> None:
    """A binding over `body`: a plain line at the end of a block, else a `with`."""
    if tail:
        printer.line(plain())
        printer.stmt(body)
        return
    with printer.scope.frame():
        printer.line(nested())
        printer.block_of(body)


@prints(ir.LetStmt)
def _let_stmt(printer: StmtPrinter, node: ir.LetStmt, tail: bool) -> None:
    value = printer.text(node.value)
    pointer = node.var.type_annotation
    kind = f"T.{node.var.dtype}" if pointer is None else printer.text(pointer)
    if printer.scope.text_of(node.var) is not None:  # defined before, e.g. used by a buffer's shape
        name = printer.text(node.var)
        printer.line(f"with T.LetStmt({value}, var={name}):")
        printer.block_of(node.body)
        return
    same_type = pointer is None and node.var.dtype is node.value.dtype
    annotation = "" if same_type else f", {kind}"
    _scoped(
        printer,
        tail,
        lambda: f"{printer.define(node.var)}: {kind} = {value}",
        lambda: f"with T.LetStmt({value}{annotation}) as {printer.define(node.var)}:",
        node.body,
    )


@prints(ir.AttrStmt)
def _attr_stmt(printer: StmtPrinter, node: ir.AttrStmt, tail: bool) -> None:
    if isinstance(node.node, ir.IterVar) and node.attr_key == "thread_extent":
        _launch_thread(printer, node, node.node, tail)
        return
    call = f"T.attr({printer.text(node.node)}, {quote(node.attr_key)}, {printer.text(node.value)})"
    _scoped(printer, tail, lambda: call, lambda: f"with {call}:", node.body)


def _launch_thread(printer: StmtPrinter, node: ir.AttrStmt, thread: ir.IterVar, tail: bool) -> None:
    extent = printer.text(node.value)
    known = printer.scope.text_of(thread.var)
    if known is not None:
        printer.line(f"with T.launch_thread({known}, {extent}):")
        printer.block_of(node.body)
        return
    call = f"T.launch_thread({quote(thread.thread_tag)}, {extent})"
    _binding(printer, call, lambda: printer.define(thread.var), node.body, tail)


@prints(ir.AssertStmt)
def _assert(printer: StmtPrinter, node: ir.AssertStmt, tail: bool) -> None:
    check = f"{printer.text(node.condition)}, {quote(node.message)}"
    _scoped(printer, tail, lambda: f"assert {check}", lambda: f"with T.Assert({check}):", node.body)


def _binding(
    printer: StmtPrinter, call: str, name: Callable[[], str], body: ir.Stmt, tail: bool
) -> None:
    _scoped(printer, tail, lambda: f"{name()} = {call}", lambda: f"with {call} as {name()}:", body)


@prints(ir.Allocate)
def _allocate(printer: StmtPrinter, node: ir.Allocate, tail: bool) -> None:
    pointer = node.buffer_var.type_annotation
    scope = "global" if pointer is None else pointer.storage_scope
    extents = printer.texts(node.extents)
    condition = "" if ir.is_true(node.condition) else f", {printer.text(node.condition)}"
    more = condition + printer.annotations(node.annotations)
    call = f"T.allocate([{extents}], {quote(node.dtype)}, {quote(scope)}{more})"
    _binding(printer, call, lambda: printer.define(node.buffer_var), node.body, tail)


@prints(ir.AllocateConst)
def _allocate_const(printer: StmtPrinter, node: ir.AllocateConst, tail: bool) -> None:
    values = ", ".join(map(repr, node.data))
    shape = printer.texts(node.extents)
    more = printer.annotations(node.annotations)
    call = f"T.allocate_const([{values}], {quote(node.dtype)}, [{shape}]{more})"
    _binding(printer, call, lambda: printer.define(node.buffer_var), node.body, tail)


@prints(ir.DeclBuffer)
def _decl_buffer(printer: StmtPrinter, node: ir.DeclBuffer, tail: bool) -> None:
    buffer = node.buffer
    call = f"T.decl_buffer({buffer_args(printer, buffer, with_data=True)})"
    _binding(printer, call, lambda: printer.define(buffer), node.body, tail)


@prints(ir.Evaluate)
def _evaluate(printer: StmtPrinter, node: ir.Evaluate, tail: bool) -> None:
    text = printer.text(node.value)
    printer.line(text if isinstance(node.value, ir.Call) else f"T.evaluate({text})")
