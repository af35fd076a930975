"""`compute_root`: a stage that was moved under other loops, back to loops of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import TRUE, BlockRealize, Stmt, Var
from tilewright.schedule.conditions.checks import is_complete_block, is_reduction_block
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves import relocate
from tilewright.schedule.state import BlockRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.state.scope import DepKind, domain_of
from tilewright.schedule.state.splice import loop_nest
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class NotAStage(PrimitiveError):
    reason = "block {block!r} does not compute each of its outputs exactly once"
    remedy = "only complete and reduction blocks have a place of their own"


class ProducersInTheWay(PrimitiveError):
    reason = "{producers} are computed in the same loops as block {block!r}, which reads them"
    remedy = "move them to the root first"


@register_primitive
class ComputeRoot(Primitive[None]):
    """Compute all of `block` before the loops that it is in now."""

    block: BlockRV = given()

    @classmethod
    def call(cls, sch: Schedule, block: BlockRV | str) -> None:  # type: ignore[override]
        """The method, which takes names of blocks as all others do."""
        sch.run(cls(sch.block(block)))

    def run(self, sch: Schedule) -> None:
        state, block = sch.state, sch.get_sref(self.block)
        root = block.scope_root
        top = relocate.path_below(root, block)[0]
        removed = relocate.check_removable(block)
        if removed is top:
            return  # its loops are its own
        relocate.check_stands_free(block, top)
        if not (is_complete_block(state, block) or is_reduction_block(state, block)):
            raise NotAStage(block=block)
        _check_producers(state, root, top, block)
        forget_flow(state, block, *state.scope_of(root).consumers(block, *DepKind))
        state.info(block).affine_binding = None
        rest = relocate.exchanged(root.body, relocate.path_below(root, removed))
        state.set_body(root, relocate.inserted(rest, _own_nest(block), max(top.seq_index, 0)))


def _check_producers(state: ScheduleState, root: StmtSRef, top: StmtSRef, block: StmtSRef) -> None:
    """What the block reads must be complete before the statement that it leaves."""
    producers = state.scope_of(root).producers(block, DepKind.RAW)
    if inside := [
        producer for producer in producers if relocate.path_below(root, producer)[0] is top
    ]:
        names = ", ".join(dict.fromkeys(repr(producer.name) for producer in inside))
        raise ProducersInTheWay(*inside, block=block, producers=names)


def _own_nest(block: StmtSRef) -> Stmt:
    """One loop for each iterator, over all of its values."""
    stmt = block.block
    variables = [Var(f"ax{n}", iter_var.var.dtype) for n, iter_var in enumerate(stmt.iter_vars)]
    domains = [domain_of(iter_var) for iter_var in stmt.iter_vars]
    pairs = list(zip(variables, domains, strict=True))
    values = tuple(variable + domain.min for variable, domain in pairs)
    loops = [(variable, domain.extent) for variable, domain in pairs]
    return loop_nest(loops, BlockRealize(values, TRUE, stmt))
