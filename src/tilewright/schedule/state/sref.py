"""References to the blocks and loops of a program that stay valid while it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir import Block, For, Stmt, replace

SchedulableStmt: TypeAlias = Block | For
Exprs: TypeAlias = Sequence[ir.PrimExpr]  # indices, or what iterators are bound to
Values: TypeAlias = Mapping[ir.Var, ir.PrimExpr]
Domains: TypeAlias = Mapping[ir.Var, ir.Range]


class WrongStatement(ScheduleError, TypeError):
    """A block where a loop is expected, or the other way round."""


class StmtSRef:
    """A block or a loop; its statement changes with the program, and is None once it is gone."""

    __slots__ = ("parent", "seq_index", "stmt")

    def __init__(
        self, stmt: SchedulableStmt | None, parent: StmtSRef | None, seq_index: int = -1
    ) -> None:
        self.stmt = stmt
        self.parent = parent  # the nearest enclosing block or loop
        self.seq_index = seq_index  # among siblings in a sequence, else -1

    @staticmethod
    def root_mark() -> StmtSRef:
        """What `sample_compute_location` gives for the root."""
        return ROOT_MARK

    @staticmethod
    def inline_mark() -> StmtSRef:
        """What `sample_compute_location` gives for a block that is to be inlined."""
        return INLINE_MARK

    def same_as(self, other: object) -> bool:
        """True when `other` is this very reference."""
        return self is other

    @property
    def block(self) -> Block:
        """The statement, which must be a block."""
        if not isinstance(self.stmt, Block):
            raise WrongStatement(f"expected a block, found {_kind(self)}")
        return self.stmt

    @property
    def loop(self) -> For:
        """The statement, which must be a loop."""
        if not isinstance(self.stmt, For):
            raise WrongStatement(f"expected a loop, found {_kind(self)}")
        return self.stmt

    @property
    def body(self) -> Stmt:
        """What the block or loop runs."""
        assert self.stmt is not None
        return self.stmt.body

    def with_body(self, body: Stmt) -> SchedulableStmt:
        """The block or loop as it is when it runs something else."""
        assert self.stmt is not None
        return replace(self.stmt, body=body)

    @property
    def around(self) -> StmtSRef:
        """The nearest enclosing block or loop of one that has one."""
        assert self.parent is not None
        return self.parent

    @property
    def loops(self) -> list[StmtSRef]:
        """The loops around a block up to the nearest block, outermost first."""
        loops = []
        parent = self.parent
        while parent is not None and type(parent.stmt) is For:
            loops.append(parent)
            parent = parent.parent
        loops.reverse()
        return loops

    @property
    def scope_root(self) -> StmtSRef:
        """The nearest block around a block or loop."""
        parent = self.parent
        while parent is not None and not isinstance(parent.stmt, Block):
            parent = parent.parent
        if parent is None:
            raise ScheduleError(f"block {self.name!r} is the root block, it has no scope around it")
        return parent

    @property
    def realize(self) -> ir.BlockRealize:
        """How a block is run where it stands."""
        if self.parent is None:
            raise ScheduleError(f"block {self.name!r} is the root block of its function")
        wanted = self.block
        for realize in leaf_realizes(self.parent.body):
            if realize.block is wanted:
                return realize
        raise ScheduleError(f"block {self.name!r} is not where its reference says")

    def holds(self, other: StmtSRef) -> bool:
        """True when `other` lies under this block or loop, or is the same."""
        node: StmtSRef | None = other
        while node is not None and node is not self:
            node = node.parent
        return node is self

    @property
    def is_block(self) -> bool:
        return isinstance(self.stmt, Block)

    @property
    def is_loop(self) -> bool:
        return isinstance(self.stmt, For)

    @property
    def name(self) -> str:
        """The name of the block or loop, for messages."""
        if isinstance(self.stmt, Block):
            return self.stmt.name_hint
        return self.stmt.loop_var.name if isinstance(self.stmt, For) else "<removed>"

    def __repr__(self) -> str:
        return f"<sref {self.name}>"


def upwards(sref: StmtSRef | None, top: StmtSRef | None = None) -> Iterator[StmtSRef]:
    """A block or loop and all around it, from the inside out, up to `top`, which is left out."""
    while sref is not None and sref is not top:
        yield sref
        sref = sref.parent


def leaf_realizes(stmt: ir.Stmt) -> Iterator[ir.BlockRealize]:
    """The blocks directly under a statement, not those nested in other blocks, in order."""
    pending = [stmt]
    while pending:
        node = pending.pop()
        while type(node) is ir.For:
            node = node.body
        kind = type(node)
        if kind is ir.BlockRealize:
            yield node  # type: ignore[misc]
        elif kind is not ir.BufferStore:
            pending.extend(reversed(ir.statements_in(node)))


def _kind(sref: StmtSRef) -> str:
    if sref is ROOT_MARK or sref is INLINE_MARK:
        return "the mark of a compute location"
    if sref.stmt is None:
        return "something that no longer exists"
    return f"{'block' if sref.is_block else 'loop'} {sref.name!r}"


# Results of sample_compute_location that are not loops.
ROOT_MARK = StmtSRef(None, None)
INLINE_MARK = StmtSRef(None, None)
