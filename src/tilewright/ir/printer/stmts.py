"""Statements as script text, one method for each kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.arithmetic import is_zero
from tilewright.ir.expr import Call, IntImm, IterVar, PrimExpr
from tilewright.ir.printer.base import StmtPrinter, prints
from tilewright.ir.printer.buffers import buffer_args
from tilewright.ir.printer.exprs import quote
from tilewright.ir.script_forms import end_of
from tilewright.ir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tilewright.ir.visit import uses_var

_LOOP_FORMS = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


@prints(SeqStmt)
def _seq(printer: StmtPrinter, node: SeqStmt, tail: bool) -> None:
    last = len(node.seq) - 1
    for position, child in enumerate(node.seq):
        printer.stmt(child, tail and position == last)


@prints(BufferStore)
def _buffer_store(printer: StmtPrinter, node: BufferStore, tail: bool) -> None:
    if node.predicate is None:
        printer.line(f"{printer.access(node.buffer, node.indices)} = {printer.text(node.value)}")
        printer.scope.mark(node)
        return
    buffer = printer.name(node.buffer, node.buffer.name)
    args = f"[{printer.texts(node.indices)}], {printer.text(node.value)}"
    printer.line(f"{buffer}.vstore({args}, predicate={printer.text(node.predicate)})")


@prints(For)
def _for(printer: StmtPrinter, node: For, tail: bool) -> None:
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


def _mark_loops(printer: StmtPrinter, nest: Sequence[For], names: Sequence[str]) -> None:
    """A loop of its own is the whole line, one of a grid its name."""
    if len(nest) == 1:
        printer.scope.mark(nest[0])
        return
    column = len("for ")
    for loop, name in zip(nest, names, strict=True):
        printer.scope.mark(loop, column, column + len(name))
        column += len(name) + len(", ")


def _grid_nest(printer: StmtPrinter, node: For) -> list[For]:
    """The loops that one `T.grid` can stand for, from `node` inwards."""
    nest: list[For] = []
    loop: Stmt = node
    while isinstance(loop, For) and _is_plain_loop(loop):
        if nest and (loop in printer.pending or _depends_on(loop.extent, nest)):
            break
        nest.append(loop)
        loop = loop.body
    return nest or [node]


def _is_plain_loop(loop: For) -> bool:
    serial = loop.kind == ForKind.SERIAL and loop.thread_binding is None
    return serial and not loop.annotations and is_zero(loop.min)


def _depends_on(extent: PrimExpr, nest: Sequence[For]) -> bool:
    variables = {loop.loop_var for loop in nest}
    return uses_var(extent, lambda var: var in variables)


def _loop_form(printer: StmtPrinter, node: For) -> str:
    end = node.extent if is_zero(node.min) else end_of(node.min, node.extent)
    if end is None:
        end = node.min + node.extent
    bounds = (end,) if is_zero(node.min) else (node.min, end)
    name = _LOOP_FORMS[node.kind]
    if name == "serial" and not node.annotations:
        return f"range({printer.texts(bounds)})"
    thread = ""
    if node.thread_binding is not None:
        thread = f", thread={quote(node.thread_binding.thread_tag)}"
    return f"T.{name}({printer.texts(bounds)}{thread}{printer.annotations(node.annotations)})"


@prints(While)
def _while(printer: StmtPrinter, node: While, tail: bool) -> None:
    printer.line(f"while {printer.text(node.condition)}:")
    printer.block_of(node.body)


@prints(IfThenElse)
def _if_then_else(printer: StmtPrinter, node: IfThenElse, tail: bool) -> None:
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
    body: Stmt,
) -> None:
    """A binding over `body`: a plain line at the end of a block, else a `with`."""
    if tail:
        printer.line(plain())
        printer.stmt(body)
        return
    with printer.scope.frame():
        printer.line(nested())
        printer.block_of(body)


@prints(LetStmt)
def _let_stmt(printer: StmtPrinter, node: LetStmt, tail: bool) -> None:
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


@prints(AttrStmt)
def _attr_stmt(printer: StmtPrinter, node: AttrStmt, tail: bool) -> None:
    if isinstance(node.node, IterVar) and node.attr_key == "thread_extent":
        _launch_thread(printer, node, node.node, tail)
        return
    call = f"T.attr({printer.text(node.node)}, {quote(node.attr_key)}, {printer.text(node.value)})"
    _scoped(printer, tail, lambda: call, lambda: f"with {call}:", node.body)


def _launch_thread(printer: StmtPrinter, node: AttrStmt, thread: IterVar, tail: bool) -> None:
    extent = printer.text(node.value)
    known = printer.scope.text_of(thread.var)
    if known is not None:
        printer.line(f"with T.launch_thread({known}, {extent}):")
        printer.block_of(node.body)
        return
    call = f"T.launch_thread({quote(thread.thread_tag)}, {extent})"
    _binding(printer, call, lambda: printer.define(thread.var), node.body, tail)


@prints(AssertStmt)
def _assert(printer: StmtPrinter, node: AssertStmt, tail: bool) -> None:
    check = f"{printer.text(node.condition)}, {quote(node.message)}"
    _scoped(printer, tail, lambda: f"assert {check}", lambda: f"with T.Assert({check}):", node.body)


def _binding(
    printer: StmtPrinter, call: str, name: Callable[[], str], body: Stmt, tail: bool
) -> None:
    _scoped(printer, tail, lambda: f"{name()} = {call}", lambda: f"with {call} as {name()}:", body)


@prints(Allocate)
def _allocate(printer: StmtPrinter, node: Allocate, tail: bool) -> None:
    pointer = node.buffer_var.type_annotation
    scope = "global" if pointer is None else pointer.storage_scope
    extents = printer.texts(node.extents)
    always = isinstance(node.condition, IntImm) and node.condition.value
    condition = "" if always else f", {printer.text(node.condition)}"
    more = condition + printer.annotations(node.annotations)
    call = f"T.allocate([{extents}], {quote(node.dtype)}, {quote(scope)}{more})"
    _binding(printer, call, lambda: printer.define(node.buffer_var), node.body, tail)


@prints(AllocateConst)
def _allocate_const(printer: StmtPrinter, node: AllocateConst, tail: bool) -> None:
    values = ", ".join(map(repr, node.data))
    shape = printer.texts(node.extents)
    more = printer.annotations(node.annotations)
    call = f"T.allocate_const([{values}], {quote(node.dtype)}, [{shape}]{more})"
    _binding(printer, call, lambda: printer.define(node.buffer_var), node.body, tail)


@prints(DeclBuffer)
def _decl_buffer(printer: StmtPrinter, node: DeclBuffer, tail: bool) -> None:
    buffer = node.buffer
    call = f"T.decl_buffer({buffer_args(printer, buffer, with_data=True)})"
    _binding(printer, call, lambda: printer.define(buffer), node.body, tail)


@prints(Evaluate)
def _evaluate(printer: StmtPrinter, node: Evaluate, tail: bool) -> None:
    text = printer.text(node.value)
    printer.line(text if isinstance(node.value, Call) else f"T.evaluate({text})")
