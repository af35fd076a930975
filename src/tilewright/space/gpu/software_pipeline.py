"""Copies of a buffer that a software pipeline needs, from the notes on its loop.

A pipelined loop names a stage and a position for each statement in its body; a statement of stage s
runs s iterations late. What an early statement writes must last until a late one has read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import BlockRealize, For, SeqStmt, Stmt
from tilewright.ir.annotation_keys import (
    MANIFEST_SHARED_MEMORY_LOCAL_STAGE,
    SOFTWARE_PIPELINE_ORDER,
    SOFTWARE_PIPELINE_STAGE,
)
from tilewright.nest.kernels import Leaf


def versions_of(
    loop: For, depth: int, writers: Sequence[Leaf], readers: Sequence[Leaf], double_buffered: bool
) -> int:
    """How many copies of a buffer exist that is allocated inside `loop`.

    `depth` is how many loops are around the body of `loop`, counted from the kernel.
    """
    stages = loop.annotations.get(SOFTWARE_PIPELINE_STAGE)
    orders = loop.annotations.get(SOFTWARE_PIPELINE_ORDER)
    if stages is None or orders is None or not isinstance(loop.body, SeqStmt):
        return 1
    statements = _statements(loop.body.seq)
    if len(statements) != len(stages) or len(orders) != len(stages):
        return 1
    written = [n for leaf in writers for n in _places(statements, leaf, depth, writes=True)]
    read = [n for leaf in readers for n in _places(statements, leaf, depth, writes=False)]
    if not written or not read:
        return 1
    first = min(int(stages[number]) for number in written)
    last = max(int(stages[number]) for number in read)
    versions = max(last - first + 1, 1)
    if versions == 2 and not double_buffered and _read_first(stages, orders, written, read):
        return 1
    return max(versions, 2 if double_buffered else 1)


def _statements(parts: Sequence[Stmt]) -> list[tuple[Stmt, int, int]]:
    """What the notes count: parts of the body, some of which will become several statements.

    Each is a part, which of its statements it is, and how many there are.
    """
    return [
        (part, number, count)
        for part in parts
        for count in (_statement_count(part),)
        for number in range(count)
    ]


def _statement_count(part: Stmt) -> int:
    inner = part
    while isinstance(inner, For):
        if SOFTWARE_PIPELINE_STAGE in inner.annotations:
            return 3  # beginning, middle and end of a pipeline of its own
        inner = inner.body
    if isinstance(inner, BlockRealize):
        notes = inner.block.annotations
        return 2 if notes.get(MANIFEST_SHARED_MEMORY_LOCAL_STAGE) else 1
    return 1


def _places(
    statements: Sequence[tuple[Stmt, int, int]], leaf: Leaf, depth: int, writes: bool
) -> list[int]:
    """The statements in which a block writes to, or reads from, shared memory."""
    part: Stmt = leaf.loops[depth] if len(leaf.loops) > depth else leaf.realize
    found = [place for place, (stmt, _, _) in enumerate(statements) if stmt is part]
    if len(found) == 2:  # to a register first, then to shared memory
        return found[1:] if writes else found[:1]
    if len(found) == 3:  # the end only computes
        return found[:2]
    return found


def _read_first(
    stages: Sequence[int], orders: Sequence[int], written: Sequence[int], read: Sequence[int]
) -> bool:
    """True when, within an iteration, old values are read before new ones take their place."""
    return all(
        int(stages[r]) == int(stages[w]) or int(orders[r]) < int(orders[w])
        for r in read
        for w in written
    )
