"""Finding blocks and loops: `get_block`, `get_loops`, `get_child_blocks`, `get_producers`,
`get_consumers`, `get_output_blocks`. They change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import Block
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, LoopRV, StmtSRef, leaf_realizes
from tilewright.schedule.state.scope import FLOW, blocks_below
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive
from tilewright.support.suggestions import did_you_mean


class BlockNotFound(PrimitiveError):
    reason = "there is no block called {name!r} in function {function!r}{hint}"


class SeveralBlocksFound(PrimitiveError):
    reason = "{count} blocks are called {name!r} in function {function!r}"
    remedy = "give them different names in the program"


class UnknownFunction(PrimitiveError):
    reason = "the module has no function {function!r}; it has {known}"


class RootHasNoNeighbours(PrimitiveError):
    reason = "the root block {name!r} has no producers or consumers"


def neighbours(sch: ScheduleCore, block: StmtSRef, before: bool) -> list[StmtSRef]:
    """Producers (or consumers) of a block in its scope, each once, in order."""
    if block.parent is None:
        raise RootHasNoNeighbours(name=block)
    _ = block.block  # dependencies are between blocks
    scope = sch.state.scope_of(block.scope_root)
    return scope.producers(block, *FLOW) if before else scope.consumers(block, *FLOW)


def _output_blocks_below(scope_block: Block) -> Iterator[Block]:
    local = set(scope_block.alloc_buffers)
    for realize in leaf_realizes(scope_block.body):
        if any(region.buffer not in local for region in realize.block.writes):
            yield realize.block
        yield from _output_blocks_below(realize.block)


@register_primitive
class GetBlock(Primitive[BlockRV]):
    is_pure = True
    moves_blocks = False
    other_kinds = ("GetSBlock",)
    name: str  # type: ignore[misc]  # of the class it is the kind, of a step that of the block
    func_name: str

    def run(self, sch: ScheduleCore) -> BlockRV:
        name, function = self.name, self.func_name
        if (root := sch.state.roots.get(function)) is None:
            raise UnknownFunction(function=function, known=", ".join(map(repr, sch.mod)))
        found = [block for block in sch.state.infos if block.block.name_hint == name]
        if len(sch.state.roots) > 1:
            found = [sref for sref in found if sch.state.function_of(sref) == function]
        if not found:
            names = [block.name_hint for block in blocks_below(root.block)]
            raise BlockNotFound(name=name, function=function, hint=did_you_mean(name, names))
        if len(found) > 1:
            raise SeveralBlocksFound(*found, name=name, function=function, count=len(found))
        return sch.block_rv(found[0])


@register_primitive
class GetLoops(Primitive[list[LoopRV]]):
    is_pure = True
    moves_blocks = False
    block: BlockRV = given()

    def run(self, sch: ScheduleCore) -> list[LoopRV]:
        block = sch.get_sref(self.block)
        _ = block.block  # loops have none of their own
        return [sch.loop_rv(loop) for loop in block.loops]


class _GetBlocks(Primitive[list[BlockRV]]):
    """Handles of the blocks that are `found`."""

    is_pure = True
    moves_blocks = False

    def found(self, sch: ScheduleCore) -> list[StmtSRef]:
        """References to the blocks."""
        raise NotImplementedError

    def run(self, sch: ScheduleCore) -> list[BlockRV]:
        return [sch.block_rv(block) for block in self.found(sch)]


@register_primitive
class GetChildBlocks(_GetBlocks):
    block_or_loop: BlockRV | LoopRV = given(positional=True)

    def found(self, sch: ScheduleCore) -> list[StmtSRef]:
        return sch.state.child_blocks(sch.get_sref(self.block_or_loop))


@register_primitive
class GetProducers(_GetBlocks):
    block: BlockRV = given()

    def found(self, sch: ScheduleCore) -> list[StmtSRef]:
        return neighbours(sch, sch.get_sref(self.block), before=True)


@register_primitive
class GetConsumers(_GetBlocks):
    block: BlockRV = given()

    def found(self, sch: ScheduleCore) -> list[StmtSRef]:
        return neighbours(sch, sch.get_sref(self.block), before=False)


@register_primitive
class GetOutputBlocks(_GetBlocks):
    scope_block: BlockRV = given()

    def found(self, sch: ScheduleCore) -> list[StmtSRef]:
        blocks = _output_blocks_below(sch.get_sref(self.scope_block).block)
        return [sch.state.srefs[block] for block in blocks]
