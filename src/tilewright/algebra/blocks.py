"""Blocks around blocks, and blocks that tensor instructions carry out.

What these steps do to a block does not depend on the loops around it: they are carried out on a
small program with just this block.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import ir
from tilewright.algebra.expr import Value, floor_divide, multiply
from tilewright.algebra.lift import lift
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    NotInterpreted,
    Predicate,
    StageNode,
    Terms,
    adopt,
    digits_of,
    inner_stages,
    is_spatial,
    loops_of,
    roots_of,
)
from tilewright.algebra.reach import DigitReaches
from tilewright.errors import ScheduleError
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.nest.loops import known_extent
from tilewright.schedule import Schedule
from tilewright.schedule.moves.init_block import initialization, reads_with_writes
from tilewright.schedule.primitives.tensorize import tensorized_block


def blockize(tree: LoopTree, loop: LoopNode, *, preserve_unit_iters: bool) -> StageNode:
    """All that is under a loop, and the loop, as one block."""
    stages = tree.stages_below(loop)
    if len(stages) != 1 or stages[0].parts or stages[0].init_parts:
        raise NotInterpreted("a loop with several blocks under it becomes a block")
    (stage,) = stages
    stage.block, stage.bindings = _own_block(stage)
    stage.does = "all"
    inside = [each for each in loops_of(stage) if each not in loops_of(loop)]
    inner = digits_of(inside)
    widths = [_width(stage, terms, inner) for terms in stage.bindings]
    program = _program(stage, inside, widths)
    (made,) = lift(_blockized(program, stage.block, len(widths), preserve_unit_iters))[0].stages()
    made.bindings = [
        _divided(stage, terms, inner, width)
        for terms, width in zip(stage.bindings, widths, strict=True)
    ]
    made.predicates = [_on_units(stage, each, inner) for each in stage.predicates]
    _take_place(tree, made, stage, inside)
    return made


def _blockized(
    program: ir.PrimFunc, block: ir.Block, loop: int, preserve_unit_iters: bool
) -> ir.PrimFunc:
    sch = Schedule(ir.IRModule({"main": program}), error_render_level="fast")
    try:
        loops = sch.get_loops(sch.get_block(block.name_hint))
        sch.blockize(loops[loop], preserve_unit_iters=preserve_unit_iters)
    except ScheduleError as error:
        raise NotInterpreted(f"block {block.name_hint!r} has no unit: {error}") from error
    return sch.mod["main"]


def _take_place(tree: LoopTree, made: StageNode, stage: StageNode, inside: list[LoopNode]) -> None:
    """Put a block into the place of the loops that it consists of; these stay what they were."""
    ((first,), init_parts) = made.parts, made.init_parts
    (body,) = LoopTree([first]).stages()
    for own, new in zip(inside, loops_of(body), strict=True):
        own.digits = new.digits
    stage.block, stage.bindings, stage.predicates = body.block, body.bindings, []
    tree.replace(inside[0], [made])
    inside[0].parent = None
    adopt(made, [inside[0]], init_parts)


def _width(stage: StageNode, terms: Mapping[Digit, Value], inner: set[Digit]) -> int:
    """How many values an iterator takes while the loops inside run."""
    part = {digit: stride for digit, stride in terms.items() if roots_of([digit]) <= inner}
    width = DigitReaches(inner).of(part) + 1
    if not isinstance(width, int):
        raise NotInterpreted(f"the size of the unit of block {stage.name!r} is decided")
    return width


def _on_units(stage: StageNode, predicate: Predicate, inner: set[Digit]) -> Predicate:
    """A predicate that holds for all of a unit or for nothing of it."""
    width = _width(stage, predicate.terms, inner)
    terms = _divided(stage, predicate.terms, inner, width)
    limit = floor_divide(predicate.limit, width)
    if not _is_multiple(limit, width, predicate.limit):
        raise NotInterpreted(f"the unit of block {stage.name!r} is cut off at an end")
    return Predicate(terms, limit)


def _divided(
    stage: StageNode, terms: Mapping[Digit, Value], inner: set[Digit], width: int
) -> Terms:
    """The part of an iterator that loops outside give, in units."""
    found: Terms = {}
    for digit, stride in terms.items():
        if roots_of([digit]) <= inner:
            continue
        units = floor_divide(stride, width)
        if not _is_multiple(units, width, stride):
            raise NotInterpreted(f"block {stage.name!r} does not consist of whole units")
        found[digit] = units
    return found


def _is_multiple(units: Value, width: int, stride: Value) -> bool:
    whole = multiply(units, width)
    return whole is stride or (isinstance(stride, int) and whole == stride)


def _program(stage: StageNode, inside: list[LoopNode], widths: list[int]) -> ir.PrimFunc:
    """A function that runs a block: one loop for the units of each iterator, then those inside."""
    block = stage.block
    units = [
        _loop(iter_var.var.name, _whole_units(stage, iter_var, width))
        for iter_var, width in zip(block.iter_vars, widths, strict=True)
    ]
    inner = [_inner_loop(stage, loop) for loop in inside]
    variables = {loop.digits[0]: made.loop_var for loop, made in zip(inside, inner, strict=True)}
    values = [
        unit.loop_var * width + _inner_value(terms, variables)
        for unit, width, terms in zip(units, widths, stage.bindings, strict=True)
    ]
    body: ir.Stmt = ir.BlockRealize(tuple(values), ir.TRUE, block)
    for each in reversed([*units, *inner]):
        body = ir.replace(each, body=body)
    root = ir.Block((), (), (), "root", body)
    buffers = {region.buffer for region in (*block.reads, *block.writes)}
    handles = {ir.Var(buffer.name, ir.DType("handle")): buffer for buffer in buffers}
    return ir.PrimFunc(tuple(handles), ir.BlockRealize((), ir.TRUE, root), handles)


def _inner_value(terms: Terms, variables: Mapping[Digit, ir.Var]) -> ir.PrimExpr:
    """What the loops inside of a unit add to an iterator."""
    value: ir.PrimExpr = ir.const(0, ir.INT32)
    for digit, stride in terms.items():
        if digit in variables:
            if not isinstance(stride, int):
                raise NotInterpreted("the loops of a unit have steps that are decided")
            value = value + variables[digit] * stride
    return value


def _whole_units(stage: StageNode, iter_var: ir.IterVar, width: int) -> int:
    extent = known_extent(iter_var)
    if extent is None or extent % width:
        raise NotInterpreted(f"block {stage.name!r} does not consist of whole units")
    return extent // width


def _loop(name: str, extent: int) -> ir.For:
    zero, end = ir.const(0, ir.INT32), ir.const(extent, ir.INT32)
    return ir.For(ir.Var(name, ir.INT32), zero, end, ir.ForKind.SERIAL, ir.no_op())


def _inner_loop(stage: StageNode, loop: LoopNode) -> ir.For:
    notes = loop.annotations
    if len(loop.digits) != 1 or not all(isinstance(n, int) for n in (loop.extent, *notes.values())):
        raise NotInterpreted(f"the unit of block {stage.name!r} has loops that are decided")
    assert isinstance(loop.extent, int)
    return ir.replace(_loop("u", loop.extent), kind=loop.kind, annotations=dict(notes))


# --- tensor instructions ------------------------------------------------------------------------


def tensorize(tree: LoopTree, node: LoopNode | StageNode, name: str, *, preserve: bool) -> None:
    """Let a tensor instruction do what a block does; raises `ScheduleError` if it does not fit."""
    stage = node
    if isinstance(stage, LoopNode):
        stage = blockize(tree, stage, preserve_unit_iters=preserve)
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    block, bindings = _own_block(stage)
    stage.block, stage.bindings = tensorized_block(block, intrin, block), bindings
    stage.does = "all"
    stage.annotations = {**stage.block.annotations, **stage.annotations}
    adopt(stage, ())


def _own_block(stage: StageNode) -> tuple[ir.Block, list[Terms]]:
    """The block of a stage that may be a half of a reduction, and what its iterators are."""
    block, bindings = stage.block, stage.bindings
    if stage.does == "all":
        return block, bindings
    if stage.does == "update":
        return ir.replace(block, init=None, reads=reads_with_writes(block)), bindings
    zeros = tuple(ir.const(0, each.var.dtype) for each in block.iter_vars)
    init, _ = initialization(
        ir.BlockRealize(zeros, ir.TRUE, block), (), rename_loop=str, rename_iterator=str,
        annotations={},
    )  # fmt: skip
    kept = zip(block.iter_vars, bindings, strict=True)
    return init, [terms for each, terms in kept if is_spatial(each)]


def child_stages(node: StageNode) -> list[StageNode]:
    """The blocks inside of a block."""
    return inner_stages(node.init_parts if node.does == "init" else node.parts)
