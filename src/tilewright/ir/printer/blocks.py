"""Blocks as script text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir import nodes as ir
from tilewright.ir.node import Node
from tilewright.ir.patterns import nodes_of
from tilewright.ir.printer.base import StmtPrinter, buffer_args, prints
from tilewright.ir.printer.definitions import buffer_vars
from tilewright.ir.printer.exprs import quote
from tilewright.ir.script_forms import body_needs_root, end_of
from tilewright.ir.structure import expr_deep_equal

_AXIS_FORMS = {
    ir.IterType.DATA_PAR: "spatial",
    ir.IterType.COMM_REDUCE: "reduce",
    ir.IterType.ORDERED: "scan",
    ir.IterType.OPAQUE: "opaque",
}
_REMAP_LETTERS = {ir.IterType.DATA_PAR: "S", ir.IterType.COMM_REDUCE: "R"}


@prints(ir.Block)
def print_block(printer: StmtPrinter, node: ir.Block, tail: bool) -> None:
    """A block without its realisation: the iterators are bound to nothing."""
    printer.line(f"with T.block({quote(node.name_hint)}, no_realize=True):")
    with printer.scope.indented():
        for iter_var in node.iter_vars:
            _axis(printer, iter_var, None)
        _block_body(printer, node)


@prints(ir.BlockRealize)
def print_block_realize(printer: StmtPrinter, node: ir.BlockRealize, tail: bool) -> None:
    """A block with the values of its iterators."""
    block = node.block
    printer.line(f"with T.block({quote(block.name_hint)}):")
    printer.scope.mark(block)
    with printer.scope.indented():
        _bindings(printer, node)
        if not ir.is_true(node.predicate):
            printer.line(f"T.where({printer.text(node.predicate)})")
        _block_body(printer, block)


def print_root(printer: StmtPrinter, node: ir.BlockRealize) -> None:
    """The root block that the parser adds by itself: a comment, buffers and the body."""
    printer.define_pending(node)
    printer.define_pending(node.block)
    printer.line('# with T.block("root"):')
    printer.scope.mark(node.block)
    _alloc_buffers(printer, node.block.alloc_buffers)
    printer.stmt(node.block.body)


def is_implicit_root(body: ir.Stmt) -> bool:
    """True when the parser would put exactly this root block around what it contains."""
    if not isinstance(body, ir.BlockRealize) or body.iter_values:
        return False
    block = body.block
    plain = not (
        block.reads
        or block.writes
        or block.annotations
        or block.match_buffers
        or block.init is not None
        or block.iter_vars
    )
    adds_root = bool(block.alloc_buffers) or body_needs_root(block.body)
    return plain and ir.is_true(body.predicate) and block.name_hint == "root" and adds_root


def _bindings(printer: StmtPrinter, node: ir.BlockRealize) -> None:
    """`T.axis.remap` for runs of iterators that follow a loop one to one, else one line each."""
    run: list[tuple[ir.IterVar, ir.Var]] = []
    for iter_var, value in zip(node.block.iter_vars, node.iter_values, strict=True):
        if isinstance(value, ir.Var) and _follows_loop(printer, iter_var, value):
            run.append((iter_var, value))
            continue
        _flush_remap(printer, run)
        _axis(printer, iter_var, value)
    _flush_remap(printer, run)


def _follows_loop(printer: StmtPrinter, iter_var: ir.IterVar, value: ir.Var) -> bool:
    loop = printer.loops.get(value)
    dom = iter_var.dom
    if loop is None or dom is None or iter_var.iter_type not in _REMAP_LETTERS:
        return False
    same_type = iter_var.var.dtype is value.dtype
    bounds = ((dom.min, loop.min), (dom.extent, loop.extent))
    return same_type and all(expr_deep_equal(left, right) for left, right in bounds)


def _flush_remap(printer: StmtPrinter, run: list[tuple[ir.IterVar, ir.Var]]) -> None:
    if len(run) == 1:
        _axis(printer, *run[0])
    elif run:
        letters = "".join(_REMAP_LETTERS[iter_var.iter_type] for iter_var, _ in run)
        loops = printer.texts([value for _, value in run])
        names = [printer.define(item.var) for item, _ in run]
        printer.line(f"{', '.join(names)} = T.axis.remap({quote(letters)}, [{loops}])")
    run.clear()


def _axis(printer: StmtPrinter, iter_var: ir.IterVar, value: ir.PrimExpr | None) -> None:
    dom = "None" if iter_var.dom is None else _domain(printer, iter_var.dom)
    args = dom if value is None else f"{dom}, {printer.text(value)}"
    name = printer.define(iter_var.var)
    printer.line(f"{name} = T.axis.{_AXIS_FORMS[iter_var.iter_type]}({args})")


def _domain(printer: StmtPrinter, dom: ir.Range) -> str:
    if ir.is_zero(dom.min) and dom.min.dtype is dom.extent.dtype:
        return printer.text(dom.extent)
    end = end_of(dom.min, dom.extent)
    return printer.tuple_of((dom.min, dom.min + dom.extent if end is None else end))


def _block_body(printer: StmtPrinter, block: ir.Block) -> None:
    _define_used_by(printer, block, block.reads)
    printer.line(f"T.reads({printer.texts(block.reads)})")
    _define_used_by(printer, block, block.writes)
    printer.line(f"T.writes({printer.texts(block.writes)})")
    if block.annotations:
        printer.line(f"T.block_attr({printer.text(dict(block.annotations))})")
    printer.define_pending(block)
    _alloc_buffers(printer, block.alloc_buffers)
    for match in block.match_buffers:
        args = f"{printer.text(match.source)}, {buffer_args(printer, match.buffer)}"
        printer.line(f"{printer.define(match.buffer)} = T.match_buffer({args})")
    if block.init is not None:
        printer.line("with T.init():")
        printer.block_of(block.init)
    printer.stmt(block.body)


def _define_used_by(
    printer: StmtPrinter, block: ir.Block, regions: Sequence[ir.BufferRegion]
) -> None:
    """Define just those pending buffers that `regions` mention, with the variables they need."""
    pending = printer.pending.get(block)
    if not pending:
        return
    used = set(_mentioned(regions))
    now = [node for node in pending if node in used]
    printer.pending[block] = [node for node in pending if node not in used]
    for node in now:
        printer.define_free(node)


def _mentioned(regions: Sequence[ir.BufferRegion]) -> Iterator[Node]:
    for region in regions:
        yield region.buffer
        yield region.buffer.data
        yield from buffer_vars(region.buffer)
        yield from nodes_of(region, ir.Var)


def _alloc_buffers(printer: StmtPrinter, buffers: Sequence[ir.Buffer]) -> None:
    for buffer in buffers:
        args = buffer_args(printer, buffer)
        printer.line(f"{printer.define(buffer)} = T.alloc_buffer({args})")
