"""Blocks and loops around a block, and the dependencies between the blocks of a scope."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir.access import inputs_of
from tilewright.schedule.state.sref import StmtSRef, leaf_realizes, upwards

# Statements that give a name to something for their body, which always runs.
DEFINITIONS = (ir.AllocateConst, ir.Allocate, ir.DeclBuffer, ir.LetStmt)


class DepKind(enum.IntEnum):
    """Why one block must run before another."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


# What one block makes and another one uses.
FLOW = (DepKind.RAW, DepKind.WAW)


@dataclass(frozen=True)
class Dependency:
    """`dst` must run after `src`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


@dataclass(frozen=True, slots=True)
class LeafAccess:
    """The buffers that a block reads and writes, each once."""

    reads: tuple[ir.Buffer, ...]
    writes: tuple[ir.Buffer, ...]


class BlockScope:
    """The leaf blocks of a scope in program order, and what they exchange.

    Dependencies are found when they are asked for: a step of a schedule looks at those of a few
    blocks, and changes the scope for the next.
    """

    __slots__ = ("_ending", "accesses", "blocks", "body", "buffer_readers", "buffer_writers",
                 "leaves", "positions")  # fmt: skip

    def __init__(
        self, blocks: Sequence[StmtSRef], leaves: Sequence[ir.Block], accesses: Sequence[LeafAccess]
    ) -> None:
        self.blocks, self.leaves, self.accesses = blocks, leaves, accesses
        self.positions = {sref: position for position, sref in enumerate(blocks)}
        self.buffer_writers: dict[ir.Buffer, list[StmtSRef]] = {}
        self.buffer_readers: dict[ir.Buffer, list[StmtSRef]] = {}
        self.body: ir.Stmt | None = None  # where the leaves were last found
        self._ending: dict[StmtSRef, list[Dependency]] = {}
        for sref, access in zip(blocks, accesses, strict=True):
            for buffer in access.writes:
                self.buffer_writers.setdefault(buffer, []).append(sref)
            for buffer in access.reads:
                self.buffer_readers.setdefault(buffer, []).append(sref)

    def to_block(self, sref: StmtSRef) -> Sequence[Dependency]:
        """Dependencies that end at a block; the order of kinds follows the declared buffers."""
        if (found := self._ending.get(sref)) is None:
            found = self._ending[sref] = self._find_ending(sref)
        return found

    def from_block(self, sref: StmtSRef) -> Sequence[Dependency]:
        """Dependencies that start at a block."""
        if (position := self.positions.get(sref)) is None:
            return ()
        access = self.accesses[position]
        touching = [
            self.buffer_writers.get(buffer, ()) for buffer in (*access.writes, *access.reads)
        ]
        touching += [self.buffer_readers.get(buffer, ()) for buffer in access.writes]
        after = {self.positions[other] for srefs in touching for other in srefs}
        return [
            edge
            for later in sorted(after)
            if later > position
            for edge in self.to_block(self.blocks[later])
            if edge.src is sref
        ]

    def producers(self, sref: StmtSRef, *kinds: DepKind) -> list[StmtSRef]:
        """The blocks that one depends on in these ways, each once, in order."""
        return list(dict.fromkeys(e.src for e in self.to_block(sref) if e.kind in kinds))

    def consumers(self, sref: StmtSRef, *kinds: DepKind) -> list[StmtSRef]:
        """The blocks that depend on one in these ways, each once, in order."""
        return list(dict.fromkeys(e.dst for e in self.from_block(sref) if e.kind in kinds))

    get_deps_by_dst = to_block
    get_deps_by_src = from_block

    def overwritten(self) -> Dependency | None:
        """A block that writes what an earlier one reads."""
        for buffer, readers in self.buffer_readers.items():
            writers = self.buffer_writers.get(buffer)
            if writers and self.positions[writers[-1]] > self.positions[readers[0]]:
                return Dependency(readers[0], writers[-1], DepKind.WAR)
        return None

    def _find_ending(self, sref: StmtSRef) -> list[Dependency]:
        if (position := self.positions.get(sref)) is None:
            return []
        access = self.accesses[position]
        found = [
            Dependency(writer, sref, DepKind.RAW)
            for buffer in access.reads
            for writer in self._before(self.buffer_writers.get(buffer, ()), position)
        ]
        for buffer in access.writes:
            writers = self._before(self.buffer_writers[buffer], position)
            readers = self._before(self.buffer_readers.get(buffer, ()), position)
            found += [Dependency(writer, sref, DepKind.WAW) for writer in writers]
            found += [Dependency(reader, sref, DepKind.WAR) for reader in readers]
        return found

    def _before(self, srefs: Sequence[StmtSRef], position: int) -> list[StmtSRef]:
        return [sref for sref in srefs if self.positions[sref] < position]


def access_of(leaf: ir.Block) -> LeafAccess:
    """The buffers of a leaf block."""
    return LeafAccess(_buffers(inputs_of(leaf).values()), _buffers(leaf.writes))


def _buffers(regions: Iterable[ir.BufferRegion]) -> tuple[ir.Buffer, ...]:
    return tuple(dict.fromkeys(region.buffer for region in regions))


def blocks_below(block: ir.Block) -> Iterator[ir.Block]:
    """A block and all in it in program order, those inside `init` left out."""
    yield block
    for realize in leaf_realizes(block.body):
        yield from blocks_below(realize.block)


def holds_leaf(stmt: ir.Stmt, block: ir.Stmt | None) -> bool:
    """True when a block is directly under a statement."""
    return any(realize.block is block for realize in leaf_realizes(stmt))


def used_between_blocks(stmt: ir.Stmt | ir.PrimExpr, buffer: ir.Buffer) -> bool:
    """True when bounds of loops, bindings or conditions around blocks read a buffer."""
    return any(
        node is buffer.data or getattr(node, "buffer", None) is buffer
        for node in ir.walk(stmt, into=lambda node: type(node) is not ir.Block)
    )


def bounds_read(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    """True when a loop runs as often as an element of a buffer says."""
    pending = [stmt]
    while pending:
        node = pending.pop()
        if type(node) is ir.For:
            pending.append(node.body)
            bounds = [b for b in (node.min, node.extent) if type(b) is not ir.IntImm]
            if any(used_between_blocks(bound, buffer) for bound in bounds):
                return True
        elif type(node) is not ir.BlockRealize:
            pending.extend(ir.statements_in(node))
    return False


def loops_between(block: StmtSRef, top: StmtSRef) -> list[ir.For]:
    """The loops around `block` that lie strictly inside `top`, outermost first."""
    return loops_from(block.parent, top)


def loops_from(sref: StmtSRef | None, top: StmtSRef | None = None) -> list[ir.For]:
    """`sref`, if it is a loop, and the loops around it up to the nearest block or `top`."""
    loops: list[ir.For] = []
    while sref is not None and sref is not top and type(sref.stmt) is ir.For:
        loops.append(sref.stmt)
        sref = sref.parent
    loops.reverse()
    return loops


def domains_of(loops: Iterable[ir.For]) -> dict[ir.Var, ir.Range]:
    """The values that the variables of loops take."""
    return {loop.loop_var: loop.domain for loop in loops}


def iterator_domains(block: ir.Block) -> dict[ir.Var, ir.Range]:
    """The values that the iterators of a block take."""
    return {iter_var.var: domain_of(iter_var) for iter_var in block.iter_vars}


def domain_of(iter_var: ir.IterVar) -> ir.Range:
    """The domain of a block iterator, which always has one."""
    assert iter_var.dom is not None
    return iter_var.dom


def lowest_common_ancestor(srefs: Sequence[StmtSRef]) -> StmtSRef:
    """The lowest block or loop that holds all of `srefs` (which may be one of them)."""
    chains = [[*upwards(sref)][::-1] for sref in srefs]
    levels: Iterable[tuple[StmtSRef, ...]] = zip(*chains, strict=False)
    common = [first for first, *others in levels if all(other is first for other in others)]
    if not common:
        raise ScheduleError("blocks of different functions have nothing in common")
    return common[-1]
