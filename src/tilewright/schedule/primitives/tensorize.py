"""`tensorize`: a block or loop nest is carried out by a tensor instruction."""

from __future__ import annotations

from functools import lru_cache

from tilewright import ir
from tilewright.ir.clone import Cloner
from tilewright.ir.tensor_intrin import TensorIntrin, parameters, root_block_of
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.primitives.blockize import blockized_loop
from tilewright.schedule.state import BlockRV, LoopRV, StmtSRef
from tilewright.schedule.state.splice import replace_in_parent
from tilewright.schedule.tensor.match import DescribedOperand, Mismatch, match_description
from tilewright.schedule.trace.instruction import Primitive, constant, given, register_primitive


class DoesNotMatch(PrimitiveError):
    reason = "block {block!r} is not what tensor intrinsic {intrin!r} computes: {why}"
    remedy = "compare the block with the intrinsic's description, TensorIntrin.get(name).desc"


class OperandNotContiguous(PrimitiveError):
    reason = (
        "tensor intrinsic {intrin!r} reads or writes its operand {operand!r} as one piece of "
        "memory, but its rows are not next to each other in {buffer!r}"
    )
    remedy = "change the layout of {buffer!r} first (transform_layout, or a packed copy)"


@register_primitive
class Tensorize(Primitive[None]):
    """Let a tensor instruction do the work of a block, or of all that is under a loop."""

    block_or_loop: BlockRV | LoopRV = given()
    tensor_intrin: str
    preserve_unit_iters: bool = constant(from_json=bool)

    def run(self, sch: ScheduleCore) -> None:
        target = sch.get_sref(self.block_or_loop)
        intrin = TensorIntrin.get(self.tensor_intrin)
        assert intrin is not None
        state = sch.state
        if target.is_loop:
            made = blockized_loop(state, target, preserve_unit_iters=self.preserve_unit_iters)
            outer = tensorized_block(made.realize.block, intrin, target)
            replace_in_parent(state, target, (ir.replace(made.realize, block=outer),), {})
            return
        state.replace(target, tensorized_block(target.block, intrin, target))
        # What runs inside is new: whatever was known of the scope that the block opens is void.
        state.info(target).stage_pipeline = None


def tensorized_block(block: ir.Block, intrin: TensorIntrin, place: StmtSRef | ir.Block) -> ir.Block:
    """`block` with the implementation of `intrin` as its body; an error points at `place`."""
    try:
        operands = match_description(block, root_block_of(intrin.desc))
    except Mismatch as mismatch:
        raise DoesNotMatch(
            place, block=block.name_hint, intrin=intrin.name, why=str(mismatch)
        ) from None
    implementation = root_block_of(intrin.impl)
    cloner = Cloner(_index_dtype(block))
    views = []
    for wanted, held in zip(parameters(intrin.desc), parameters(intrin.impl), strict=True):
        operand = operands[wanted]
        _check_contiguous(intrin, held, operand, place)
        view = cloner.define_buffer(held)
        views.append(ir.MatchBufferRegion(view, operand.region(held.shape)))
    body = cloner.rewrite(
        ir.replace(implementation, reads=(), writes=(), iter_vars=(), annotations={})
    )
    return ir.replace(
        block,
        body=body.body,
        alloc_buffers=body.alloc_buffers,
        match_buffers=(*views, *body.match_buffers),
        # Those of the program come first, and stay where both have one.
        annotations={**block.annotations, **implementation.annotations, **block.annotations},
    )


def _index_dtype(block: ir.Block) -> ir.DType:
    """The widest index type that the block uses."""
    if wide := [iv.var.dtype for iv in block.iter_vars if iv.var.dtype.bits > ir.INT32.bits]:
        return wide[0]
    starts = (axis.min.dtype for region in (*block.reads, *block.writes) for axis in region.region)
    return next((dtype for dtype in starts if dtype.bits > ir.INT32.bits), ir.INT32)


# --- operands in one piece ----------------------------------------------------------------------


def _check_contiguous(
    intrin: TensorIntrin, given: ir.Buffer, operand: DescribedOperand, place: StmtSRef | ir.Block
) -> None:
    if given.strides or given not in _whole_operands(intrin):
        return
    source = operand.buffer
    leading = len(source.shape) - len(given.shape)
    mine = _strides(source.strides, source.shape)[leading:]
    wanted = _strides((), given.shape)
    for extent, stride, expected in zip(given.shape, mine, wanted, strict=True):
        if _number(extent) != 1 and stride != expected:
            raise OperandNotContiguous(
                place, intrin=intrin.name, operand=given.name, buffer=source.name
            )


def _strides(strides: tuple[ir.PrimExpr, ...], shape: tuple[ir.PrimExpr, ...]) -> list[int | None]:
    """Distances between elements along each axis; None where they are not constant."""
    if strides:
        return [_number(stride) for stride in strides]
    result: list[int | None] = []
    step: int | None = 1
    for extent in reversed(shape):
        result.append(step)
        size = _number(extent)
        step = None if size is None or step is None else step * size
    return result[::-1]


def _number(expr: ir.PrimExpr) -> int | None:
    return expr.value if isinstance(expr, ir.IntImm) else None


@lru_cache(maxsize=256)
def _whole_operands(intrin: TensorIntrin) -> frozenset[ir.Buffer]:
    """Parameters of the implementation that it accesses across their rows or by pointer."""
    nodes = list(ir.walk(root_block_of(intrin.impl).body))
    crossed = {
        node.buffer
        for node in nodes
        if isinstance(node, ir.BufferLoad | ir.BufferStore) and _crosses_rows(node)
    }
    variables = {node for node in nodes if isinstance(node, ir.Var)}
    return frozenset(crossed | {b for b in parameters(intrin.impl) if b.data in variables})


def _crosses_rows(node: ir.BufferLoad | ir.BufferStore) -> bool:
    last = node.indices[-1] if node.indices else None
    if not isinstance(last, ir.Ramp):
        return False
    extent = _number(node.buffer.shape[-1])
    return extent is None or last.lanes > extent


# --- the primitive ------------------------------------------------------------------------------
