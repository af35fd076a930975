"""The rules of expressions, and how a broken rule is reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tilewright.errors import WellFormedError
from tilewright.ir import nodes as ir
from tilewright.ir.function import IRModule
from tilewright.ir.node import Node, replace
from tilewright.ir.visit import Visitor

# Script declares first what a statement printed alone does not define.
_DECLARATION = re.compile(r"\s*\w+ = T\.(\w+\(\)|(Buffer|handle)\(.*\))$")


class ExprVerifier(Visitor):
    """Knows which variables are defined at the point it looks at."""

    def __init__(self, function_name: str, module: IRModule) -> None:
        self._name = function_name
        self._module = module
        self._statements: list[ir.Stmt] = []
        self.blocks: list[ir.Block] = []
        self.loop_depth: dict[ir.Var, int] = {}
        self.defined: set[ir.Var] = set()

    # --- where we are ---

    @contextmanager
    def inside(self, stmt: ir.Stmt) -> Iterator[None]:
        """The statement that errors are shown in."""
        self._statements.append(stmt)
        yield
        self._statements.pop()

    def fail(self, culprit: Node, reason: str, remedy: str) -> NoReturn:
        place = _marked_line(self._statements[-1], culprit) if self._statements else ""
        raise WellFormedError(
            f"function {self._name!r} is not well-formed: {reason}{place}\n  help: {remedy}"
        )

    # --- types ---

    def same_type(self, expr: ir.PrimExpr, wanted: ir.DType, what: str) -> None:
        if expr.dtype is not wanted:
            self.fail(
                expr, f"{what} is {expr.dtype!s}, expected {wanted!s}", f"cast it to {wanted!s}"
            )

    def integer(self, expr: ir.PrimExpr, what: str) -> None:
        if not expr.dtype.is_integral:
            self.fail(
                expr, f"{what} is {expr.dtype!s}, not an integer", "cast it to int32 or int64"
            )

    def boolean(self, expr: ir.PrimExpr, what: str) -> None:
        if not expr.dtype.is_bool:
            self.fail(expr, f"{what} is {expr.dtype!s}, not bool", "compare it, e.g. `x != 0`")

    # --- variables and buffers ---

    def visit_var(self, node: ir.Var) -> None:
        if node not in self.defined:
            self.undefined(node)
        depth = self.loop_depth.get(node)
        if depth is not None:
            self._loop_used_in_block(node, depth)

    def undefined(self, var: ir.Var) -> None:
        self.fail(
            var,
            f"variable {var.name!r} is used but nothing defines it",
            "make it a parameter, a loop variable, a block iterator or a let",
        )

    def _loop_used_in_block(self, var: ir.Var, depth: int) -> None:
        for block in self.blocks[depth:]:
            if block.iter_vars:
                self.fail(
                    var,
                    f"loop variable {var.name!r} is used inside block {block.name_hint!r}, "
                    "which lies inside the loop",
                    f"bind it to an iterator of the block, e.g. T.axis.spatial(n, {var.name})",
                )

    def buffer(self, buffer: ir.Buffer) -> None:
        if buffer.data not in self.defined:
            self.fail(
                buffer,
                f"buffer {buffer.name!r} is used but nothing defines it",
                "make it a parameter, allocate it with T.alloc_buffer, or declare it",
            )

    def check_layout(self, buffer: ir.Buffer) -> None:
        """The variables that the shape of a buffer uses must be known."""
        for expr in buffer.layout:
            self.visit(expr)
            self.integer(expr, f"a size of buffer {buffer.name!r}")

    def index_count(self, buffer: ir.Buffer, count: int) -> None:
        if count != len(buffer.shape):
            self.fail(
                buffer,
                f"buffer {buffer.name!r} has {len(buffer.shape)} dimensions "
                f"but is accessed with {count} indices",
                "give one index for each dimension",
            )

    def access(
        self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], predicate: ir.PrimExpr | None
    ) -> None:
        self.buffer(buffer)
        self.index_count(buffer, len(indices))
        for index in indices:
            self.integer(index, f"an index of buffer {buffer.name!r}")
        for index in indices[:-1]:
            if index.dtype.lanes > 1:
                self.fail(
                    index,
                    f"an index of buffer {buffer.name!r} other than the last is a vector",
                    "only the last index may be a vector",
                )
        if predicate is not None:
            self.boolean(predicate, f"the mask of an access of {buffer.name!r}")

    # --- expressions ---

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self.access(node.buffer, node.indices, node.predicate)
        self.generic_visit(node)

    def visit_binary_op(self, node: ir.BinaryOp) -> None:
        self.generic_visit(node)
        if node.a.dtype is not node.b.dtype:
            self.fail(
                node,
                f"the operands of {type(node).__name__} have different types, "
                f"{node.a.dtype!s} and {node.b.dtype!s}",
                "cast one of them, or build the expression with Python's operators",
            )

    def visit_and(self, node: ir.And | ir.Or) -> None:
        self.visit_binary_op(node)
        self.boolean(node.a, f"an operand of {type(node).__name__}")

    visit_or = visit_and

    def visit_not(self, node: ir.Not) -> None:
        self.generic_visit(node)
        self.boolean(node.a, "the operand of Not")

    def visit_cast(self, node: ir.Cast) -> None:
        self.generic_visit(node)
        if node.dtype.lanes != node.value.dtype.lanes:
            self.fail(
                node,
                f"a cast from {node.value.dtype!s} to {node.dtype!s} changes the number of lanes",
                "use Broadcast or Shuffle to change lanes",
            )

    def visit_select(self, node: ir.Select) -> None:
        self.generic_visit(node)
        self.boolean(node.condition, "the condition of Select")
        self.same_type(node.false_value, node.true_value.dtype, "the second value of Select")

    def visit_ramp(self, node: ir.Ramp) -> None:
        self.generic_visit(node)
        self.same_type(node.stride, node.base.dtype, "the stride of Ramp")

    def visit_let(self, node: ir.Let) -> None:
        self.visit(node.value)
        added = node.var not in self.defined
        self.defined.add(node.var)
        self.visit(node.body)
        if added:
            self.defined.discard(node.var)

    def visit_reduce(self, node: ir.Reduce) -> None:
        self.fail(node, "a Reduce expression is left in a function", "use te.create_prim_func")

    def visit_call(self, node: ir.Call) -> None:
        self.generic_visit(node)
        op = node.op
        wanted = self._callee_arity(node, op) if isinstance(op, ir.GlobalVar) else op.num_inputs
        if wanted is not None and wanted != len(node.args):
            self.fail(
                node,
                f"{op.name} takes {wanted} arguments, got {len(node.args)}",
                "pass all of its arguments",
            )

    def _callee_arity(self, node: ir.Call, callee: ir.GlobalVar) -> int | None:
        func = self._module.functions.get(callee.name)
        if func is None:
            known = ", ".join(map(repr, self._module.functions))
            self.fail(node, f"the module has no function {callee.name!r}", f"it has {known}")
        return len(func.params)


def _marked_line(stmt: ir.Stmt, culprit: Node) -> str:
    """The printed line that shows the culprit, and a mark below it."""
    text = str(culprit)
    pattern = re.compile(rf"(?<![\w.]){re.escape(text)}(?!\w)")
    lines = [line for line in str(_without_body(stmt)).splitlines() if not _DECLARATION.match(line)]
    for line in reversed(lines):
        found = list(pattern.finditer(line))
        if found and text:
            begin, end = found[-1].span()
            indent = len(line) - len(line.lstrip())
            shown = line[indent:]
            return f"\n    {shown}\n    {' ' * (begin - indent)}{'^' * (end - begin)}"
    return f"\n    {lines[0].strip()}" if lines else ""


def _without_body(stmt: ir.Stmt) -> ir.Stmt:
    """A statement with what it encloses cut away, so that its own line is all there is."""
    changes: dict[str, Any] = {
        name: ir.no_op()
        for name in ("body", "then_case")
        if isinstance(getattr(stmt, name, None), ir.Stmt)
    }
    if getattr(stmt, "else_case", None) is not None:
        changes["else_case"] = None
    if isinstance(stmt, ir.Block):
        changes["init"] = None
    if isinstance(stmt, ir.BlockRealize):
        return replace(stmt, block=_without_body(stmt.block))
    return replace(stmt, **changes) if changes else stmt
