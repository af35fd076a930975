"""Finding the description of a tensor instruction in a program.

Program and description are walked side by side. A buffer of the program may have more dimensions
than its counterpart, and its indices may lie anywhere: what they exceed those of the description by
is the offset of the instruction's operand, which must be the same in every access and must not
depend on the iterators of the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import arith, ir


class Mismatch(Exception):
    """Why a program is not what a description says; never leaves the callers of this module."""


@dataclass(frozen=True)
class DescribedOperand:
    """Where an operand of the instruction lies: its first element in a buffer of the program."""

    buffer: ir.Buffer
    offsets: tuple[ir.PrimExpr, ...]

    def region(self, shape: tuple[ir.PrimExpr, ...]) -> ir.BufferRegion:
        """The part of the buffer that is an operand of this shape; leading dimensions are 1."""
        sizes = [extent.value for extent in shape if isinstance(extent, ir.IntImm)]
        extents = [1] * (len(self.offsets) - len(sizes)) + sizes
        ranges = (
            ir.Range(offset, ir.const(extent, offset.dtype))
            for offset, extent in zip(self.offsets, extents, strict=True)
        )
        return ir.BufferRegion(self.buffer, tuple(ranges))


def match_description(block: ir.Block, description: ir.Block) -> dict[ir.Buffer, DescribedOperand]:
    """Where the buffers of a description lie if `block` computes what it says.

    Iterators of `block` itself are fixed for the instruction. Raises `Mismatch`.
    """
    if block.init is not None:
        raise Mismatch("the block still has an init statement; use decompose_reduction first")
    if block.match_buffers or block.alloc_buffers:
        raise Mismatch("the block declares buffers of its own")
    matcher = DescriptionMatcher(block.iter_vars)
    matcher.stmt(block.body, description.body)
    return matcher.operands


class DescriptionMatcher:
    """Walks a program (`mine`) and a description (`theirs`) side by side."""

    def __init__(self, outer_iters: Sequence[ir.IterVar]) -> None:
        self.operands: dict[ir.Buffer, DescribedOperand] = {}
        self._inner: dict[ir.Var, ir.Var] = {}  # of the description -> of the program
        self._inner_mine: set[ir.Var] = set()
        self._owner: dict[ir.Buffer, ir.Buffer] = {}  # of the program -> of the description
        self.analyzer = arith.Analyzer()
        for iter_var in outer_iters:
            # An iterator with one value keeps its name in offsets.
            if iter_var.dom is not None and not ir.is_one(iter_var.dom.extent):
                self.analyzer.bind(iter_var.var, iter_var.dom)

    def _define(self, theirs: ir.Var, mine: ir.Var, domain: ir.Range | None) -> None:
        self._inner[theirs] = mine
        self._inner_mine.add(mine)
        if domain is not None:
            self.analyzer.bind(mine, domain)

    # --- statements -----------------------------------------------------------------------------

    def stmt(self, mine: ir.Stmt, theirs: ir.Stmt) -> None:
        """Compare two statements."""
        if type(mine) is not type(theirs):
            raise Mismatch(f"expected {_article(theirs)}, found {_article(mine)}: `{_line(mine)}`")
        match mine:
            case ir.For():
                self._loop(mine, theirs)  # type: ignore[arg-type]
            case ir.BlockRealize():
                self._realize(mine, theirs)  # type: ignore[arg-type]
            case ir.BufferStore():
                self.access(mine, theirs)  # type: ignore[arg-type]
                self.expr(mine.value, theirs.value)  # type: ignore[attr-defined]
            case _:
                self._generic(mine, theirs)

    def _loop(self, mine: ir.For, theirs: ir.For) -> None:
        name = mine.loop_var.name
        self._index(f"the start of loop {name!r}", mine.min, theirs.min)
        self._index(f"the extent of loop {name!r}", mine.extent, theirs.extent)
        if _kind(mine) != _kind(theirs):
            raise Mismatch(f"loop {name!r} is {_kind(mine)}, not {_kind(theirs)}")
        if dict(mine.annotations) != dict(theirs.annotations):
            raise Mismatch(f"loop {name!r} has other annotations than the description")
        self._define(theirs.loop_var, mine.loop_var, mine.domain)
        self.stmt(mine.body, theirs.body)

    def _realize(self, mine: ir.BlockRealize, theirs: ir.BlockRealize) -> None:
        inner, wanted = mine.block, theirs.block
        name = inner.name_hint
        if len(inner.iter_vars) != len(wanted.iter_vars):
            raise Mismatch(
                f"block {name!r} has {len(inner.iter_vars)} iterators where the description has "
                f"{len(wanted.iter_vars)}"
            )
        for value, other in zip(mine.iter_values, theirs.iter_values, strict=True):
            self._index(f"a binding of block {name!r}", value, other)
        self.expr(mine.predicate, theirs.predicate)
        self._block(inner, wanted)

    def _block(self, mine: ir.Block, theirs: ir.Block) -> None:
        name = mine.name_hint
        for iter_var, other in zip(mine.iter_vars, theirs.iter_vars, strict=True):
            if iter_var.iter_type is not other.iter_type:
                raise Mismatch(
                    f"iterator {iter_var.var.name!r} of block {name!r} is "
                    f"{iter_var.iter_type.name}, not {other.iter_type.name}"
                )
            domain, wanted = iter_var.dom, other.dom
            if domain is not None and wanted is not None:
                what = f"the domain of iterator {iter_var.var.name!r}"
                self._index(what, domain.min, wanted.min)
                self._index(what, domain.extent, wanted.extent)
            self._define(other.var, iter_var.var, domain)
        if (mine.init is None) != (theirs.init is None):
            raise Mismatch(f"block {name!r} and the description differ in having an init statement")
        if mine.init is not None and theirs.init is not None:
            self.stmt(mine.init, theirs.init)
        if mine.alloc_buffers or mine.match_buffers:
            raise Mismatch(f"block {name!r} declares buffers of its own")
        # Notes for later steps, such as how a block was tiled, change nothing in what it computes.
        for key, value in theirs.annotations.items():
            if mine.annotations.get(key) != value:
                raise Mismatch(f"block {name!r} has no annotation {key!r} of {value!r}")
        self.stmt(mine.body, theirs.body)

    # --- expressions ----------------------------------------------------------------------------

    def expr(self, mine: ir.PrimExpr, theirs: ir.PrimExpr) -> None:
        """Compare two values, operator by operator."""
        if type(mine) is not type(theirs) or mine.dtype != theirs.dtype:
            raise Mismatch(f"expected `{theirs}`, found `{mine}`")
        match mine:
            case ir.Var():
                if self._inner.get(theirs) is not mine:  # type: ignore[call-overload]
                    raise Mismatch(f"expected `{theirs}`, found `{mine}`")
            case ir.IntImm() | ir.FloatImm() | ir.StringImm():
                if mine.value != theirs.value:  # type: ignore[attr-defined]
                    raise Mismatch(f"expected `{theirs}`, found `{mine}`")
            case ir.BufferLoad():
                self.access(mine, theirs)  # type: ignore[arg-type]
            case ir.Call() if mine.op is not theirs.op:  # type: ignore[attr-defined]
                raise Mismatch(f"expected `{theirs}`, found `{mine}`")
            case _:
                self._generic(mine, theirs)

    def _generic(self, mine: ir.Node, theirs: ir.Node) -> None:
        pairs = list(ir.children(mine)), list(ir.children(theirs))
        if len(pairs[0]) != len(pairs[1]):
            raise Mismatch(f"expected `{_line(theirs)}`, found `{_line(mine)}`")
        for child, other in zip(*pairs, strict=True):
            if isinstance(child, ir.Stmt):
                self.stmt(child, other)  # type: ignore[arg-type]
            else:
                self.expr(child, other)  # type: ignore[arg-type]

    def _index(self, what: str, mine: ir.PrimExpr, theirs: ir.PrimExpr) -> None:
        """Compare two integers that may differ in width and in form."""
        difference = ir.subtract(mine, translate(theirs, self._inner, mine.dtype))
        if not ir.is_zero(self.analyzer.simplify(difference)):
            raise Mismatch(f"{what} is `{mine}`, not `{theirs}`")

    # --- buffers --------------------------------------------------------------------------------

    def access(
        self, mine: ir.BufferLoad | ir.BufferStore, theirs: ir.BufferLoad | ir.BufferStore
    ) -> None:
        """Compare where two loads or stores go."""
        buffer, wanted = mine.buffer, theirs.buffer
        if mine.predicate is not None or theirs.predicate is not None:
            raise Mismatch(f"masked access of {buffer.name}")
        if self._owner.setdefault(buffer, wanted) is not wanted:
            raise Mismatch(
                f"{buffer.name} would stand for both {self._owner[buffer].name} and {wanted.name}"
            )
        offsets = self._offsets(mine, theirs)
        if (known := self.operands.get(wanted)) is None:
            _check_kind(buffer, wanted)
            self.operands[wanted] = DescribedOperand(buffer, offsets)
            return
        if known.buffer is not buffer:
            raise Mismatch(
                f"{wanted.name} would stand for both {known.buffer.name} and {buffer.name}"
            )
        for old, new in zip(known.offsets, offsets, strict=True):
            if not self.analyzer.can_prove_equal(old, new):
                raise Mismatch(
                    f"{buffer.name} is accessed at different offsets, `{old}` and `{new}`"
                )

    def _offsets(
        self, mine: ir.BufferLoad | ir.BufferStore, theirs: ir.BufferLoad | ir.BufferStore
    ) -> tuple[ir.PrimExpr, ...]:
        leading = len(mine.indices) - len(theirs.indices)
        if leading < 0:
            raise Mismatch(
                f"{mine.buffer.name} has {len(mine.indices)} dimensions, fewer than "
                f"{theirs.buffer.name} of the description"
            )
        offsets = list(mine.indices[:leading])
        for index, other in zip(mine.indices[leading:], theirs.indices, strict=True):
            offsets.append(ir.subtract(index, translate(other, self._inner, index.dtype)))
        simple = tuple(self.analyzer.simplify(offset) for offset in offsets)
        for axis, offset in enumerate(simple):
            if ir.uses_var(offset, self._inner_mine.__contains__):
                wanted = f"{theirs.buffer.name}[{', '.join(map(str, theirs.indices))}]"
                raise Mismatch(
                    f"index {axis} of {mine.buffer.name}, `{mine.indices[axis]}`, does not follow "
                    f"the description, which accesses {wanted}"
                )
        return simple


def translate(
    expr: ir.PrimExpr, variables: Mapping[ir.Var, ir.Var], dtype: ir.DType
) -> ir.PrimExpr:
    """An index of a description in terms of the program, its constants in that index type."""
    if isinstance(expr, ir.Var):
        return variables.get(expr, expr)
    own = {
        ir.Var: lambda var: variables.get(var, var),
        ir.IntImm: lambda node: node if node.dtype is dtype else ir.const(node.value, dtype),
    }
    return ir.rewrite(expr, own)


def _check_kind(mine: ir.Buffer, theirs: ir.Buffer) -> None:
    if mine.dtype != theirs.dtype:
        raise Mismatch(f"{mine.name} holds {mine.dtype!s}, {theirs.name} {theirs.dtype!s}")
    if mine.scope != theirs.scope:
        raise Mismatch(
            f"{mine.name} is in scope {mine.scope!r}, {theirs.name} of the description in "
            f"{theirs.scope!r}"
        )


def _line(node: ir.Node) -> str:
    return str(node).strip().splitlines()[-1].strip()


_ARTICLES: dict[type, str] = {
    ir.For: "a loop",
    ir.BlockRealize: "a block",
    ir.BufferStore: "a store",
}


def _article(stmt: ir.Stmt) -> str:
    return _ARTICLES.get(type(stmt), type(stmt).__name__)


def _kind(loop: ir.For) -> str:
    tag = "" if loop.thread_binding is None else f" ({loop.thread_binding.thread_tag})"
    return loop.kind.name.lower() + tag
