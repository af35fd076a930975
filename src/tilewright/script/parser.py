"""The frame of the parser: state, nested bodies, and the table of statement kinds.

control_flow.py  for, while, if, assert, return; forms that enclose statements: `with`, allocations,
                 attributes, threads
assignments.py   stores and names
blocks.py        blocks and what stands directly inside them
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.ir import DType, IterVar, PrimExpr, Range, Stmt, Var, cast, const
from tilewright.ir.buffer import Buffer
from tilewright.ir.stmt import Enclose, enclosed
from tilewright.script import diagnostics
from tilewright.script.evaluator import Evaluator
from tilewright.script.frames import BlockFrame, FunctionFrame
from tilewright.support.handlers import Handlers

# Functions that give kinds of statements, or forms of `T`, their meaning; the modules named above
# fill the tables when they are imported.
STATEMENTS = Handlers()  # f(parser, node) -> None
FORM_STATEMENTS = Handlers()  # f(parser, node, form) -> None: as a statement of its own
FORM_ASSIGNMENTS = Handlers()  # f(parser, target, form, node) -> None: `target = form`
FORM_BODIES = Handlers()  # f(parser, with_node, form) -> None: `with form:`
# f(parser, node, form, name) -> Enclose: what is bound over the statements after it, or inside its
# `with`.
FORM_BINDERS = Handlers()


class Parser(Evaluator):
    """Turns the statements of one function into TensorIR."""

    def __init__(self, evaluator: Evaluator, function: FunctionFrame) -> None:
        super().__init__(evaluator.source, evaluator.environment)
        self.function = function
        self.blocks: list[BlockFrame] = []
        self.loop_ranges: dict[Var, Range] = {}
        self.items: list[Stmt | Enclose] = []
        self.directly_in_block = False
        self.threads: dict[Var, IterVar] = {}
        self.loop_levels: dict[Var, int] = {}  # how many blocks are around the loop of a variable
        # reads of loop variables from inside blocks
        self.loop_uses: list[tuple[ast.Name, Var]] = []

    def body(self, nodes: Sequence[ast.stmt], ended_because: str = "") -> Stmt:
        """A nested block of statements, with its own names."""
        outer, self.items = self.items, []
        with self.environment.scope(ended_because):
            self.statements(nodes)
        items, self.items = self.items, outer
        return enclosed(items, keeps_no_ops=True)  # what the user wrote stays

    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        """Parse statements into the current list."""
        for node in nodes:
            method = STATEMENTS.get(type(node))
            if method is None:
                kind = type(node).__name__
                word = {"FunctionDef": "def", "ClassDef": "class"}.get(kind, kind.lower())
                raise self.error(node, diagnostics.unsupported(f"`{word}`"))
            method(self, node)

    @contextmanager
    def inside(self, in_block: bool) -> Iterator[None]:
        """Note whether the statements stand directly in a block."""
        outer, self.directly_in_block = self.directly_in_block, in_block
        yield
        self.directly_in_block = outer

    def note_use(self, node: ast.Name, value: Any) -> None:
        level = len(self.blocks)
        if isinstance(value, Var) and self.loop_levels.get(value, level) < level:
            self.loop_uses.append((node, value))

    def forget_uses_in(self, node: ast.expr) -> None:
        """Bindings and predicates of a block are about the loops around it."""
        inside = set(ast.walk(node))
        self.loop_uses = [use for use in self.loop_uses if use[0] not in inside]

    def check_loop_uses(self, block: BlockFrame, since: int, level: int) -> None:
        """A block with iterators computes from these alone, not from the loops around it."""
        for node, var in self.loop_uses[since:]:
            if block.iter_vars and self.loop_levels[var] <= level:
                raise self.error(
                    node,
                    f"loop variable {var.name!r} is used inside block {block.name!r}: bind it to "
                    f"an iterator of the block, e.g. v{var.name} = T.axis.spatial(n, {var.name})",
                )

    def emit(self, item: Stmt | Enclose) -> None:
        self.items.append(item)

    def fit(self, node: ast.expr, buffer: Buffer, wanted: DType, value: Any) -> PrimExpr:
        """The value in the type of its place; only conversions that keep the kind are implied."""
        if isinstance(value, (bool, int, float)):
            return self.attempt(node, lambda: const(value, wanted))
        expr = self.converted(node, value)
        given = expr.dtype
        if given is wanted:
            return expr
        if given.lanes != wanted.lanes:
            raise self.error(
                node,
                f"the store into buffer {buffer.name!r} needs a value of type {wanted}, got {given}"
                "; use T.Broadcast to fill all lanes",
            )
        loses = given.is_float and not wanted.is_float
        if loses or wanted.is_bool or given.is_handle or wanted.is_handle:
            raise self.error(
                node,
                f"cannot store a {given} value in buffer {buffer.name!r} of {wanted}: convert it "
                f'with T.Cast("{wanted}", ...)',
            )
        return cast(wanted, expr)

    def declare(self, buffer: Buffer) -> Buffer:
        """Make a buffer known under its name."""
        self.environment.define(buffer.name, buffer)
        self.function.buffers.append(buffer)
        return buffer

    def target_name(self, target: ast.expr) -> str:
        """The name that is assigned to."""
        if not isinstance(target, ast.Name):
            raise self.error(target, "expected a plain name here")
        return target.id
