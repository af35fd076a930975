"""Blocks, and the forms that stand directly inside them."""

from __future__ import annotations

import ast
from typing import Any

from tilewright import ir
from tilewright.arith.block_access import block_access_regions
from tilewright.ir.script_forms import extent_between
from tilewright.script import diagnostics, forms
from tilewright.script.access import as_region
from tilewright.script.diagnostics import described, verb_for
from tilewright.script.frames import BlockFrame, plain_value
from tilewright.script.parser import FORM_ASSIGNMENTS, FORM_BODIES, FORM_STATEMENTS, Parser
from tilewright.support.text import counted

_REMAP_KINDS = {"S": ir.IterType.DATA_PAR, "R": ir.IterType.COMM_REDUCE}


@FORM_BODIES.of(forms.BlockForm)
def _block(parser: Parser, node: ast.With, form: forms.BlockForm) -> None:
    frame = BlockFrame(form.name, form.no_realize)
    ended = f"it is an iterator or buffer of block {form.name!r}, which has ended"
    uses_before = len(parser.loop_uses)
    parser.blocks.append(frame)
    with parser.inside(in_block=True):
        body = parser.body(node.body, ended)
    parser.blocks.pop()
    parser.check_loop_uses(frame, uses_before, len(parser.blocks))
    parser.emit(frame.realize(_with_regions(parser, node, frame, frame.block(body))))


def _with_regions(parser: Parser, node: ast.With, frame: BlockFrame, block: ir.Block) -> ir.Block:
    """The block with the regions that the user left out."""
    if frame.reads is not None and frame.writes is not None:
        return block
    found = block_access_regions(block, parser.function.buffers)
    if found.opaque:
        by_pointer = {buffer.data: buffer.name for buffer in parser.function.buffers}
        names = (repr(by_pointer.get(pointer, pointer.name)) for pointer in found.opaque)
        raise parser.error(
            node.items[0].context_expr,
            f"block {block.name_hint!r} uses the pointer of {', '.join(names)}: what it accesses "
            "cannot be seen; state it with T.reads(...) and T.writes(...)",
        )
    return ir.replace(
        block,
        reads=found.reads if frame.reads is None else frame.reads,
        writes=found.writes if frame.writes is None else frame.writes,
    )


@FORM_BODIES.of(forms.InitForm)
def _init(parser: Parser, node: ast.With, form: forms.InitForm) -> None:
    frame = _block_without(parser, node.items[0].context_expr, "T.init()", "init")
    with parser.inside(in_block=False):
        frame.init = parser.body(node.body)


def _current_block(parser: Parser, node: ast.AST, form: str) -> BlockFrame:
    """The block that a form belongs to; the form must stand directly in it."""
    if not parser.blocks or not parser.directly_in_block:
        raise parser.error(node, f"{form} must stand directly inside `with T.block(...)`")
    return parser.blocks[-1]


def _block_without(parser: Parser, node: ast.AST, form: str, field: str) -> BlockFrame:
    """The block that a form belongs to; it may be given once."""
    frame = _current_block(parser, node, form)
    if getattr(frame, field) is not None:
        raise parser.error(node, diagnostics.form_twice(form, frame.name))
    return frame


@FORM_ASSIGNMENTS.of(forms.AxisForm)
def _axis(parser: Parser, target: ast.expr, form: forms.AxisForm, node: ast.expr) -> None:
    frame = _current_block(parser, node, f"T.axis.{form.kind}")
    parser.forget_uses_in(node)
    if form.binding is None and not frame.no_realize:
        raise parser.error(
            node,
            f"T.axis.{form.kind} needs the value the iterator is bound to, e.g. "
            f"T.axis.{form.kind}(16, i); only a block with no_realize=True goes without",
        )
    value = None if form.binding is None else parser.converted(node, form.binding)
    dom = parser.attempt(node, lambda: _domain(form.dom, value))
    _add_iterator(parser, frame, target, form.iter_type, dom, value)


def _domain(dom: Any, value: ir.PrimExpr | None) -> ir.Range:
    """The domain of an iterator: an extent, a pair, or a range."""
    if isinstance(dom, ir.Range):
        return dom
    begin, end = dom if isinstance(dom, (tuple, list)) else (None, dom)
    stop = _bound(end, value)
    start = ir.const(0, stop.dtype) if begin is None else _bound(begin, value)
    return ir.Range(start, stop if begin is None else extent_between(start, stop))


def _bound(bound: Any, value: ir.PrimExpr | None) -> ir.PrimExpr:
    """A Python integer takes the type of the value that the iterator is bound to."""
    if isinstance(bound, int) and value is not None and value.dtype.is_integral:
        return ir.const(bound, value.dtype)
    return ir.convert(bound)


def _add_iterator(
    parser: Parser,
    frame: BlockFrame,
    target: ast.expr,
    iter_type: ir.IterType,
    dom: ir.Range,
    value: ir.PrimExpr | None,
) -> None:
    name = parser.target_name(target)
    var = ir.Var(name, dom.extent.dtype)
    if any(iter_var.var.name == name for iter_var in frame.iter_vars):
        raise parser.error(target, diagnostics.form_twice(f"the iterator {name!r}", frame.name))
    frame.iter_vars.append(ir.IterVar(dom, var, iter_type))
    if value is not None:
        frame.iter_values.append(value)
    parser.environment.define(name, var)


@FORM_ASSIGNMENTS.of(forms.RemapForm)
def _remap(parser: Parser, target: ast.expr, form: forms.RemapForm, node: ast.expr) -> None:
    frame = _current_block(parser, node, "T.axis.remap")
    parser.forget_uses_in(node)
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    if len(form.kinds) != len(form.loop_vars):
        loops = len(form.loop_vars)
        raise parser.error(
            node,
            f"T.axis.remap needs one letter for each loop variable: {form.kinds!r} has "
            f"{len(form.kinds)}, but {counted(loops, 'variable')} {verb_for(loops)} given",
        )
    if len(targets) != len(form.kinds):
        made, given = counted(len(form.kinds), "iterator"), counted(len(targets), "name")
        told = f"T.axis.remap makes {made}, but {given} {verb_for(len(targets))} given"
        raise parser.error(target, told)
    for name, letter, loop_var in zip(targets, form.kinds, form.loop_vars, strict=True):
        if letter not in _REMAP_KINDS:
            told = f"T.axis.remap knows 'S' (spatial) and 'R' (reduce), not {letter!r}"
            raise parser.error(node, told)
        dom = parser.loop_ranges.get(loop_var) if isinstance(loop_var, ir.Var) else None
        if dom is None:
            raise parser.error(
                node,
                f"T.axis.remap binds iterators to loop variables, {described(loop_var)} is not "
                "one; use T.axis.spatial(extent, value) or T.axis.reduce(extent, value)",
            )
        _add_iterator(parser, frame, name, _REMAP_KINDS[letter], dom, loop_var)


@FORM_STATEMENTS.of(forms.ReadsForm)
def _reads(parser: Parser, node: ast.expr, form: forms.ReadsForm) -> None:
    frame = _block_without(parser, node, "T.reads", "reads")
    frame.reads = parser.attempt(node, lambda: tuple(map(as_region, form.regions)))


@FORM_STATEMENTS.of(forms.WritesForm)
def _writes(parser: Parser, node: ast.expr, form: forms.WritesForm) -> None:
    frame = _block_without(parser, node, "T.writes", "writes")
    frame.writes = parser.attempt(node, lambda: tuple(map(as_region, form.regions)))


@FORM_STATEMENTS.of(forms.WhereForm)
def _where(parser: Parser, node: ast.expr, form: forms.WhereForm) -> None:
    frame = _block_without(parser, node, "T.where", "predicate")
    parser.forget_uses_in(node)
    predicate = parser.converted(node, form.predicate)
    if not predicate.dtype.is_bool:
        raise parser.error(node, diagnostics.not_a_condition(predicate))
    frame.predicate = predicate


@FORM_STATEMENTS.of(forms.BlockAttrForm)
def _block_attr(parser: Parser, node: ast.expr, form: forms.BlockAttrForm) -> None:
    frame = _current_block(parser, node, "T.block_attr")
    frame.annotations.update(plain_value(form.attrs))


@FORM_STATEMENTS.of(forms.FuncAttrForm)
def _func_attr(parser: Parser, node: ast.expr, form: forms.FuncAttrForm) -> None:
    if parser.blocks:
        raise parser.error(node, "T.func_attr belongs at the top of the function")
    parser.function.attrs.update(plain_value(form.attrs))


@FORM_ASSIGNMENTS.of(forms.AllocBufferForm)
def _alloc_buffer(
    parser: Parser, target: ast.expr, form: forms.AllocBufferForm, node: ast.expr
) -> None:
    name = parser.target_name(target)
    buffer = parser.declare(parser.attempt(node, lambda: form.decl.build(name)))
    owner = parser.blocks[-1].alloc_buffers if parser.blocks else parser.function.root_buffers
    owner.append(buffer)


@FORM_ASSIGNMENTS.of(forms.MatchBufferForm)
def _match_buffer(
    parser: Parser, target: ast.expr, form: forms.MatchBufferForm, node: ast.expr
) -> None:
    name, source = parser.target_name(target), form.source
    if isinstance(source, (ir.Buffer, ir.BufferLoad, ir.BufferRegion)):
        region = parser.attempt(node, lambda: as_region(source))
        frame = _current_block(parser, node, "T.match_buffer of a region")
        scope = region.buffer.scope
        buffer = parser.declare(parser.attempt(node, lambda: form.decl.build(name, scope)))
        frame.match_buffers.append(ir.MatchBufferRegion(buffer, region))
        return
    if not (isinstance(source, ir.Var) and source.dtype is ir.HANDLE):
        told = f"expected a handle parameter or a region of a buffer, got {source!r}"
        raise parser.error(node, told)
    if not any(source is known for known in parser.function.params):
        raise parser.error(node, f"{source.name!r} is not a parameter of the function")
    if source in parser.function.buffer_map:
        raise parser.error(node, f"parameter {source.name!r} is matched to a buffer already")
    parser.function.buffer_map[source] = parser.declare(
        parser.attempt(node, lambda: form.decl.build(name))
    )
