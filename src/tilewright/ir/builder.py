"""An imperative way to build statements: `tir.ir_builder`.

ib = ir_builder.create()
A = ib.pointer("float32", name="A")
with ib.for_range(0, n, name="i") as i:
    with ib.if_scope(i % 2 == 0):
        A[i] = A[i] + 1.0
body = ib.get()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.errors import IRError
from tilewright.ir import intrinsics, nodes as ir
from tilewright.ir.annotation_keys import INDEPENDENT
from tilewright.ir.node import Node
from tilewright.ir.operators import ExprLike, ExprOperators
from tilewright.ir.stmt import Enclose, enclosed

_KINDS = {
    "serial": ir.ForKind.SERIAL,
    "parallel": ir.ForKind.PARALLEL,
    "vectorize": ir.ForKind.VECTORIZED,
    "unroll": ir.ForKind.UNROLLED,
    "independent": ir.ForKind.SERIAL,  # but it need not be
}
# The size of memory behind a bare pointer: unknown, so as much as an int32 can index.
_UNKNOWN_EXTENT = 2**31 - 1


class BufferVar(ExprOperators, frozen=True):
    """Memory that can be indexed: reading makes a load, assigning emits a store.

    A content type with lanes makes every index count whole vectors.
    """

    builder: Any
    buffer: ir.Buffer
    content_type: ir.DType

    @property
    def dtype(self) -> ir.DType:
        return self.content_type

    def asobject(self) -> ir.PrimExpr:
        """The data pointer."""
        return self.buffer.data

    def __getitem__(self, index: ExprLike | tuple[ExprLike, ...]) -> ir.BufferLoad:
        return ir.BufferLoad(self.buffer, self._indices(index))

    def __setitem__(self, index: ExprLike | tuple[ExprLike, ...], value: ExprLike) -> None:
        stored = ir.convert(value)
        if stored.dtype != self.content_type:
            stored = self._converted(stored, value)
        self.builder.emit(ir.BufferStore(self.buffer, stored, self._indices(index)))

    def _converted(self, stored: ir.PrimExpr, value: ExprLike) -> ir.PrimExpr:
        """Python numbers take the type of the buffer; expressions must have it."""
        if isinstance(value, (bool, int, float)):
            return ir.const(value, self.content_type)
        if stored.dtype.element_of is self.content_type.element_of and stored.dtype.lanes == 1:
            return ir.cast(self.content_type, stored)
        raise IRError(
            f"cannot store {stored.dtype!s} into {self.buffer.name} of {self.content_type!s}; "
            f"use .astype({str(self.content_type)!r})"
        )

    def _indices(self, index: ExprLike | tuple[ExprLike, ...]) -> tuple[ir.PrimExpr, ...]:
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.buffer.shape):
            raise IRError(
                f"{self.buffer.name} has {len(self.buffer.shape)} dimensions, "
                f"got {len(given)} indices"
            )
        indices = [ir.convert(each) for each in given]
        lanes = self.content_type.lanes
        if lanes > 1 and self.buffer.dtype.lanes == 1:
            last = indices[-1]
            indices[-1] = ir.Ramp(ir.multiply(last, lanes), ir.const(1, last.dtype), lanes)
        return tuple(indices)


class IRBuilder:
    """Collects statements; every open scope has a list of its own."""

    def __init__(self) -> None:
        self._scopes: list[list[ir.Stmt | Enclose]] = [[]]

    def emit(self, stmt: ir.Stmt | ir.PrimExpr | Enclose) -> None:
        """Add a statement, or a function that encloses all that follows in the scope."""
        self._scopes[-1].append(ir.Evaluate(stmt) if isinstance(stmt, ir.PrimExpr) else stmt)

    def get(self) -> ir.Stmt:
        """Everything emitted so far, as one statement."""
        if len(self._scopes) != 1:
            raise IRError("ir_builder: get() inside an open scope; leave all `with` blocks first")
        statement = enclosed(self._scopes.pop())
        self._scopes.append([])
        return statement

    @contextmanager
    def _scope(self) -> Iterator[list[ir.Stmt]]:
        """A scope whose only statement appears in the given list when it is left."""
        result: list[ir.Stmt] = []
        self._scopes.append([])
        depth = len(self._scopes)
        try:
            yield result
        except BaseException:
            del self._scopes[depth - 1 :]
            raise
        result.append(enclosed(self._scopes.pop()))

    # --- memory ---

    def allocate(
        self,
        dtype: str,
        shape: Sequence[ExprLike] | ExprLike,
        name: str = "buf",
        scope: str = "global",
        axis_separators: Sequence[int] = (),
    ) -> BufferVar:
        """New memory for the rest of the scope."""
        buffer = ir.decl_buffer(
            shape, dtype, name, scope=scope or "global", axis_separators=axis_separators
        )
        self.emit(lambda body: ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.TRUE, body))
        return BufferVar(self, buffer, buffer.dtype)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "global") -> BufferVar:
        """Memory of unknown size that a parameter (`.asobject()`) points to."""
        kind = ir.DType(content_type)
        element = kind.element_of
        data = ir.Var(name, ir.HANDLE, ir.PointerType(element, scope or "global"))
        return BufferVar(self, ir.decl_buffer((_UNKNOWN_EXTENT,), element, name, data), kind)

    def buffer_ptr(self, buffer: ir.Buffer) -> BufferVar:
        """An existing buffer, to be indexed."""
        return BufferVar(self, buffer, buffer.dtype)

    # --- scopes ---

    @contextmanager
    def for_range(
        self,
        begin: ExprLike,
        end: ExprLike,
        name: str = "i",
        dtype: str | None = None,
        kind: str = "serial",
    ) -> Iterator[ir.Var]:
        """A loop over `[begin, end)`; gives the loop variable."""
        if kind not in _KINDS:
            raise IRError(f"for_range: unknown kind {kind!r}, expected one of {', '.join(_KINDS)}")
        start, stop = ir.convert(begin), ir.convert(end)
        index = ir.DType(dtype) if dtype is not None else _wider(start, stop)
        var = ir.Var(name, index)
        with self._scope() as body:
            yield var
        start = ir.cast(index, start)
        extent = ir.subtract(ir.cast(index, stop), start)
        notes = {INDEPENDENT: 1} if kind == "independent" else {}
        self.emit(ir.For(var, start, extent, _KINDS[kind], body[0], None, notes))

    @contextmanager
    def while_loop(self, condition: ExprLike) -> Iterator[None]:
        """A loop that runs as long as `condition` holds."""
        with self._scope() as body:
            yield
        self.emit(ir.While(ir.convert(condition), body[0]))

    @contextmanager
    def if_scope(self, condition: ExprLike) -> Iterator[None]:
        """Statements that run where `condition` holds."""
        with self._scope() as body:
            yield
        self.emit(ir.IfThenElse(ir.convert(condition), body[0]))

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The other branch of the `if_scope` just before."""
        scope = self._scopes[-1]
        previous = scope[-1] if scope else None
        if not isinstance(previous, ir.IfThenElse) or previous.else_case is not None:
            raise IRError("else_scope must come right after an if_scope")
        with self._scope() as body:
            yield
        self._scopes[-1][-1] = ir.IfThenElse(previous.condition, previous.then_case, body[0])

    def scope_attr(self, node: Node | str | None, attr_key: str, value: ExprLike | str) -> None:
        """Set an attribute for the rest of the scope."""
        shown = node.var if isinstance(node, ir.IterVar) and attr_key != "thread_extent" else node
        constant = ir.convert(value)
        self.emit(lambda body: ir.AttrStmt(shown, attr_key, constant, body))

    def let(self, var_name: str | ir.Var, value: ExprLike) -> ir.Var:
        """Name a value for the rest of the scope."""
        expr = ir.convert(value)
        var = var_name if isinstance(var_name, ir.Var) else ir.Var(var_name, expr.dtype)
        self.emit(lambda body: ir.LetStmt(var, expr, body))
        return var

    def likely(self, condition: ExprLike) -> ir.PrimExpr:
        """`condition`, marked as a bound check."""
        return intrinsics.likely(condition)


create = IRBuilder  # its name in TVM


def _wider(start: ir.PrimExpr, stop: ir.PrimExpr) -> ir.DType:
    """The type of a loop variable: that of the bounds, constants adapting to the other one."""
    if isinstance(start, ir.IntImm) and not isinstance(stop, ir.IntImm):
        return stop.dtype
    if isinstance(stop, ir.IntImm) and not isinstance(start, ir.IntImm):
        return start.dtype
    return max(start.dtype, stop.dtype, ir.INT32, key=lambda kind: kind.bits)
