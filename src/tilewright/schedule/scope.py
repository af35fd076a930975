"""Blocks and loops around a block, and the dependencies between the blocks of a scope."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.errors import ScheduleError
from tilewright.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    SeqStmt,
    Stmt,
    children,
)
from tilewright.schedule.sref import StmtSRef
from tilewright.schedule.state import ScheduleState


class DepKind(enum.IntEnum):
    """Why one block must run before another."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True)
class Dependency:
    """`dst` must run after `src`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


@dataclass
class BlockScope:
    """The leaf blocks of a scope in program order, and what they exchange."""

    blocks: tuple[StmtSRef, ...]
    leaves: tuple[Block, ...]
    by_src: dict[StmtSRef, list[Dependency]] = field(default_factory=dict)
    by_dst: dict[StmtSRef, list[Dependency]] = field(default_factory=dict)
    buffer_writers: dict[Buffer, list[StmtSRef]] = field(default_factory=dict)
    body: Stmt | None = None  # where the leaves were last found

    def from_block(self, sref: StmtSRef) -> Sequence[Dependency]:
        """Dependencies that start at a block."""
        return self.by_src.get(sref, ())

    def to_block(self, sref: StmtSRef) -> Sequence[Dependency]:
        """Dependencies that end at a block."""
        return self.by_dst.get(sref, ())


def scope_of(state: ScheduleState, root: StmtSRef) -> BlockScope:
    """The scope that a block opens; kept until one of its leaf blocks changes."""
    body = root.block.body
    known: BlockScope | None = state.scopes.get(root)
    if known is not None and known.body is body:
        return known
    leaves = tuple(realize.block for realize in leaf_realizes(body))
    if known is None or not _same_nodes(known.leaves, leaves):
        known = state.scopes[root] = _build_scope(state, leaves)
    known.body = body
    return known


def _same_nodes(old: tuple[Block, ...], new: tuple[Block, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _build_scope(state: ScheduleState, leaves: tuple[Block, ...]) -> BlockScope:
    srefs = tuple(state.srefs[leaf] for leaf in leaves)
    scope = BlockScope(srefs, leaves)
    readers: dict[Buffer, list[StmtSRef]] = {}
    for sref, leaf in zip(srefs, leaves, strict=True):
        reads, writes = _buffers(leaf.reads), _buffers(leaf.writes)
        # The order of kinds for one pair follows the buffers, as they are declared.
        for buffer in reads:
            for writer in scope.buffer_writers.get(buffer, ()):
                _add_dependency(scope, writer, sref, DepKind.RAW)
        for buffer in writes:
            for writer in scope.buffer_writers.get(buffer, ()):
                _add_dependency(scope, writer, sref, DepKind.WAW)
            for reader in readers.get(buffer, ()):
                _add_dependency(scope, reader, sref, DepKind.WAR)
        for buffer in writes:
            scope.buffer_writers.setdefault(buffer, []).append(sref)
        for buffer in reads:
            readers.setdefault(buffer, []).append(sref)
    return scope


def _buffers(regions: Sequence[BufferRegion]) -> list[Buffer]:
    return list(dict.fromkeys(region.buffer for region in regions))


def _add_dependency(scope: BlockScope, src: StmtSRef, dst: StmtSRef, kind: DepKind) -> None:
    if src is dst:
        return
    dependency = Dependency(src, dst, kind)
    scope.by_src.setdefault(src, []).append(dependency)
    scope.by_dst.setdefault(dst, []).append(dependency)


def leaf_realizes(stmt: Stmt) -> Iterator[BlockRealize]:
    """The blocks directly under a statement, not those nested in other blocks, in order."""
    pending = [stmt]
    while pending:
        node = pending.pop()
        while type(node) is For:
            node = node.body
        if isinstance(node, BlockRealize):
            yield node
        elif isinstance(node, SeqStmt):
            pending.extend(reversed(node.seq))
        elif type(node) is not BufferStore:
            pending.extend(reversed([c for c in children(node) if isinstance(c, Stmt)]))


def loops_of(sref: StmtSRef) -> list[StmtSRef]:
    """The loops around a block up to the nearest block, outermost first."""
    loops = []
    parent = sref.parent
    while parent is not None and type(parent.stmt) is For:
        loops.append(parent)
        parent = parent.parent
    loops.reverse()
    return loops


def scope_root(sref: StmtSRef) -> StmtSRef:
    """The nearest block around a block or loop."""
    parent = sref.parent
    while parent is not None and not isinstance(parent.stmt, Block):
        parent = parent.parent
    if parent is None:
        raise ScheduleError(f"block {sref.name!r} is the root block, it has no scope around it")
    return parent


def realize_of(block: StmtSRef) -> BlockRealize:
    """How a block is run where it stands."""
    parent = block.parent
    if parent is None:
        raise ScheduleError(f"block {block.name!r} is the root block of its function")
    wanted = block.block
    assert parent.stmt is not None
    for realize in leaf_realizes(parent.stmt.body):
        if realize.block is wanted:
            return realize
    raise ScheduleError(f"block {block.name!r} is not where its reference says")


def child_blocks(state: ScheduleState, sref: StmtSRef) -> list[StmtSRef]:
    """The blocks directly under a block or loop."""
    assert sref.stmt is not None
    return [state.srefs[realize.block] for realize in leaf_realizes(sref.stmt.body)]


def lowest_common_ancestor(srefs: Sequence[StmtSRef]) -> StmtSRef:
    """The lowest block or loop that holds all of `srefs` (which may be one of them)."""
    common: list[StmtSRef] | None = None
    for sref in srefs:
        chain = []
        node: StmtSRef | None = sref
        while node is not None:
            chain.append(node)
            node = node.parent
        chain.reverse()
        if common is None:
            common = chain
            continue
        length = 0
        for a, b in zip(common, chain, strict=False):
            if a is not b:
                break
            length += 1
        common = common[:length]
    if not common:
        raise ScheduleError("blocks of different functions have nothing in common")
    return common[-1]


def is_ancestor(upper: StmtSRef, lower: StmtSRef) -> bool:
    """True when `lower` lies under `upper` (a node lies under itself)."""
    node: StmtSRef | None = lower
    while node is not None:
        if node is upper:
            return True
        node = node.parent
    return False
