"""Finding blocks and loops: `get_block`, `get_loops`, `get_child_blocks`, `get_producers`,
`get_consumers`, `get_output_blocks`. They change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import Block, BlockRealize, children
from tilewright.ir.node import Node
from tilewright.ir.stmt import Stmt
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state.scope import DepKind, child_blocks, loops_of, scope_of, scope_root
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.trace.instruction import Outputs, Primitive, keywords, register_primitive
from tilewright.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class BlockNotFound(PrimitiveError):
    reason = "there is no block called {name!r} in function {function!r}{hint}"


class SeveralBlocksFound(PrimitiveError):
    reason = "{count} blocks are called {name!r} in function {function!r}"
    remedy = "give them different names in the program"


class UnknownFunction(PrimitiveError):
    reason = "the module has no function {function!r}; it has {known}"


class RootHasNoNeighbours(PrimitiveError):
    reason = "the root block {name!r} has no producers or consumers"


def _get_block(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    name, function = attrs
    root = sch.state.roots.get(function)
    if root is None:
        raise UnknownFunction(function=function, known=", ".join(map(repr, sch.mod)))
    found = [block for block in sch.state.infos if block.block.name_hint == name]
    if len(sch.state.roots) > 1:
        found = [sref for sref in found if sch.state.function_of(sref) == function]
    if not found:
        names = [block.name_hint for block in _blocks_below(root.block)]
        raise BlockNotFound(name=name, function=function, hint=did_you_mean(name, names))
    if len(found) > 1:
        raise SeveralBlocksFound(*found, name=name, function=function, count=len(found))
    return sch.block_rv(found[0]), None


def _blocks_below(node: Node) -> Iterator[Block]:
    """All blocks in program order, those inside `init` left out."""
    if isinstance(node, Block):
        yield node
        yield from _blocks_below(node.body)
    elif isinstance(node, BlockRealize):
        yield from _blocks_below(node.block)
    else:
        for child in children(node):
            if isinstance(child, Stmt):
                yield from _blocks_below(child)


def _get_loops(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    block = sch.get_sref(inputs[0])
    _ = block.block  # loops have none of their own
    return [sch.loop_rv(loop) for loop in loops_of(block)], None


def _get_child_blocks(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    return [sch.block_rv(b) for b in child_blocks(sch.state, sch.get_sref(inputs[0]))], None


def _neighbours(before: bool) -> Callable[..., tuple[Outputs, Any]]:
    def run(
        sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> tuple[Outputs, Any]:
        block = sch.get_sref(inputs[0])
        return [sch.block_rv(other) for other in neighbours(sch, block, before)], None

    return run


def neighbours(sch: Schedule, block: StmtSRef, before: bool) -> list[StmtSRef]:
    """Producers (or consumers) of a block in its scope, each once, in order."""
    if block.parent is None:
        raise RootHasNoNeighbours(block, name=block.name)
    _ = block.block  # dependencies are between blocks
    scope = scope_of(sch.state, scope_root(block))
    dependencies = scope.to_block(block) if before else scope.from_block(block)
    kinds = (DepKind.RAW, DepKind.WAW)
    found = [d.src if before else d.dst for d in dependencies if d.kind in kinds]
    return list(dict.fromkeys(found))


def _get_output_blocks(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    scope_block = sch.get_sref(inputs[0]).block
    outputs = list(_output_blocks_below(scope_block))
    return [sch.block_rv(sch.state.srefs[block]) for block in outputs], None


def _output_blocks_below(scope_block: Block) -> Iterator[Block]:
    local = set(scope_block.alloc_buffers)
    for block in _blocks_directly_below(scope_block.body):
        if any(region.buffer not in local for region in block.writes):
            yield block
        yield from _output_blocks_below(block)


def _blocks_directly_below(node: Node) -> Iterator[Block]:
    if isinstance(node, BlockRealize):
        yield node.block
        return
    for child in children(node):
        if isinstance(child, Stmt):
            yield from _blocks_directly_below(child)


def _register(kind: str, method: str, run: Any, *names: str, others: tuple[str, ...] = ()) -> None:
    spell = keywords(*names)
    many = kind != "GetBlock"
    register_primitive(
        Primitive(kind, method, run, spell, is_pure=True, other_kinds=others, gives_list=many)
    )


_register("GetBlock", "get_block", _get_block, "name", "func_name", others=("GetSBlock",))
_register("GetLoops", "get_loops", _get_loops, "block")
_register("GetChildBlocks", "get_child_blocks", _get_child_blocks, "")
_register("GetProducers", "get_producers", _neighbours(before=True), "block")
_register("GetConsumers", "get_consumers", _neighbours(before=False), "block")
_register("GetOutputBlocks", "get_output_blocks", _get_output_blocks, "scope_block")
