"""The statement grammar of TensorIR."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from tilewright.ir.arithmetic import TRUE, int_imm
from tilewright.ir.buffer import Buffer, BufferRegion
from tilewright.ir.dtype import INT32, DType
from tilewright.ir.expr import IterVar, PrimExpr, Range, Var
from tilewright.ir.node import Node

__all__ = [
    "Stmt", "ForKind", "BufferStore", "For", "While", "IfThenElse", "LetStmt", "AttrStmt",
    "AssertStmt", "Allocate", "AllocateConst", "DeclBuffer", "SeqStmt", "Evaluate",
    "MatchBufferRegion", "Block", "BlockRealize", "seq", "statements_in", "statements_of", "no_op",
    "is_no_op", "root_realize",
]  # fmt: skip


class Stmt(Node, frozen=True):
    """A statement."""


Enclose = Callable[[Stmt], Stmt]  # puts a binding around the statements that follow it


class ForKind(enum.IntEnum):
    """How the iterations of a loop are carried out."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class BufferStore(Stmt, frozen=True):
    """`buffer[indices] = value`; an optional predicate masks the lanes of a vector store."""

    child_fields: ClassVar[tuple[str, ...]] = ("value", "indices", "predicate")
    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None


class For(Stmt, frozen=True):
    """A loop over `[min, min + extent)`."""

    has_annotations: ClassVar[bool] = True
    child_fields: ClassVar[tuple[str, ...]] = ("min", "extent", "body", "thread_binding")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Any] = {}

    @property
    def domain(self) -> Range:
        """The values of the loop variable."""
        return Range(self.min, self.extent)


class While(Stmt, frozen=True):
    child_fields: ClassVar[tuple[str, ...]] = ("condition", "body")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    condition: PrimExpr
    body: Stmt


class IfThenElse(Stmt, frozen=True):
    child_fields: ClassVar[tuple[str, ...]] = ("condition", "then_case", "else_case")
    statement_fields: ClassVar[tuple[str, ...]] = ("then_case", "else_case")
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None


class LetStmt(Stmt, frozen=True):
    """`body` with `var` standing for `value`."""

    child_fields: ClassVar[tuple[str, ...]] = ("value", "body")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    var: Var
    value: PrimExpr
    body: Stmt


class AttrStmt(Stmt, frozen=True):
    """`body`, with the attribute `attr_key` of `node` set to `value`."""

    child_fields: ClassVar[tuple[str, ...]] = ("value", "body")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt


class AssertStmt(Stmt, frozen=True):
    """Check `condition`, then run `body`."""

    child_fields: ClassVar[tuple[str, ...]] = ("condition", "body")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    condition: PrimExpr
    message: str
    body: Stmt


class Allocate(Stmt, frozen=True):
    """Memory for `extents` elements that lives as long as `body` runs."""

    has_annotations: ClassVar[bool] = True
    child_fields: ClassVar[tuple[str, ...]] = ("extents", "condition", "body")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    buffer_var: Var
    dtype: DType
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: Mapping[str, Any] = {}


class AllocateConst(Stmt, frozen=True):
    """Read-only memory filled with `data`, a flat tuple of Python numbers, while `body` runs."""

    has_annotations: ClassVar[bool] = True
    child_fields: ClassVar[tuple[str, ...]] = ("extents", "body")
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    buffer_var: Var
    dtype: DType
    extents: tuple[PrimExpr, ...]
    data: tuple[int | float, ...]
    body: Stmt
    annotations: Mapping[str, Any] = {}


class DeclBuffer(Stmt, frozen=True):
    """Give the name of a buffer to memory that exists already."""

    child_fields: ClassVar[tuple[str, ...]] = ("body",)
    statement_fields: ClassVar[tuple[str, ...]] = ("body",)
    buffer: Buffer
    body: Stmt


class SeqStmt(Stmt, frozen=True):
    """Statements one after another; at least two, none of them a SeqStmt."""

    child_fields: ClassVar[tuple[str, ...]] = ("seq",)
    statement_fields: ClassVar[tuple[str, ...]] = ("seq",)
    seq: tuple[Stmt, ...]

    def __getitem__(self, position: int) -> Stmt:
        return self.seq[position]

    def __len__(self) -> int:
        return len(self.seq)


class Evaluate(Stmt, frozen=True):
    """Evaluate an expression for its effect."""

    child_fields: ClassVar[tuple[str, ...]] = ("value",)
    value: PrimExpr


class MatchBufferRegion(Node, frozen=True):
    """`buffer` as another view of the region `source`."""

    child_fields: ClassVar[tuple[str, ...]] = ("source",)
    buffer: Buffer
    source: BufferRegion


class Block(Stmt, frozen=True):
    """The unit of scheduling: a computation over `iter_vars` that touches only what it declares."""

    has_annotations: ClassVar[bool] = True
    child_fields: ClassVar[tuple[str, ...]] = (
        "iter_vars",
        "reads",
        "writes",
        "body",
        "init",
        "match_buffers",
    )
    statement_fields: ClassVar[tuple[str, ...]] = ("body", "init")
    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Mapping[str, Any] = {}


class BlockRealize(Stmt, frozen=True):
    """Run `block` with its iterators bound to `iter_values`, where `predicate` holds."""

    child_fields: ClassVar[tuple[str, ...]] = ("iter_values", "predicate", "block")
    statement_fields: ClassVar[tuple[str, ...]] = ("block",)
    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    @property
    def bindings(self) -> Iterable[tuple[IterVar, PrimExpr]]:
        """The iterators of the block and their values."""
        return zip(self.block.iter_vars, self.iter_values, strict=True)

    @property
    def values(self) -> dict[Var, PrimExpr]:
        """The values by the variables of the iterators."""
        return {iter_var.var: value for iter_var, value in self.bindings}


def seq(statements: Iterable[Stmt | None], *, keeps_no_ops: bool = False) -> Stmt:
    """Statements in order, flattened; no-ops vanish, and one statement stands alone."""
    flat: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, SeqStmt):
            flat.extend(statement.seq)
        elif statement is not None and (keeps_no_ops or not is_no_op(statement)):
            flat.append(statement)
    if not flat:
        return no_op()
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def enclosed(items: Sequence[Stmt | Enclose], *, keeps_no_ops: bool = False) -> Stmt:
    """Statements and bindings in order; each binding encloses all that comes after it."""
    after: list[Stmt] = []
    for item in reversed(items):
        if isinstance(item, Stmt):
            after.append(item)
        else:
            after = [item(seq(reversed(after), keeps_no_ops=keeps_no_ops))]
    return seq(reversed(after), keeps_no_ops=keeps_no_ops)


def statements_in(node: Node) -> Sequence[Stmt]:
    """The statements right inside of another one, or of a function, in order."""
    if isinstance(node, SeqStmt):
        return node.seq
    return [each for name in node.statement_fields if (each := getattr(node, name)) is not None]


def statements_of(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of a sequence; any other is the only one."""
    return stmt.seq if isinstance(stmt, SeqStmt) else (stmt,)


def flattened(sequence: SeqStmt) -> SeqStmt:
    """The same statements without a sequence among them."""
    if not any(isinstance(child, SeqStmt) for child in sequence.seq):
        return sequence
    flat: list[Stmt] = []
    for child in sequence.seq:
        flat.extend(flattened(child).seq if isinstance(child, SeqStmt) else (child,))
    return SeqStmt(tuple(flat))


def no_op() -> Stmt:
    """A statement that does nothing."""
    return Evaluate(int_imm(INT32, 0))


def is_no_op(statement: Stmt) -> bool:
    """True for the evaluation of a constant or a variable."""
    return isinstance(statement, Evaluate) and not statement.value.child_fields


def root_realize(block: Block) -> BlockRealize:
    """A block without iterators, to be run once."""
    return BlockRealize((), TRUE, block)
