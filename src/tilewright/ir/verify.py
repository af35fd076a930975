"""The rules every TensorIR program keeps, checked: `verify_well_formed`.

An error names the function, shows the line with a mark under the culprit, says which rule is broken
and what to do. `verify_exprs.py` holds the rules of expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tilewright.errors import WellFormedError
from tilewright.ir import nodes as ir
from tilewright.ir.function import IRModule, PrimFunc, as_module
from tilewright.ir.node import nodes_in
from tilewright.ir.patterns import walk
from tilewright.ir.verify_exprs import ExprVerifier


def verify_well_formed(program: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Check a program; a broken rule raises `WellFormedError`, or gives False if not asserting."""
    module = as_module(program)
    try:
        for func in module.functions.values():
            _Verifier(func, module).run()
    except WellFormedError:
        if assert_mode:
            raise
        return False
    return True


class _Verifier(ExprVerifier):
    """Statements: what they define, for which part of the program, and the types they need."""

    def __init__(self, func: PrimFunc, module: IRModule) -> None:
        super().__init__(func.name, module)
        self._func = func
        nodes = walk(func.body, into=lambda node: not isinstance(node, ir.PrimExpr))
        blocks = [node for node in nodes if isinstance(node, ir.Block)]
        self._iterators = {iv.var: block.name_hint for block in blocks for iv in block.iter_vars}

    def run(self) -> None:
        func = self._func
        for param in func.params:
            self._define(param, "parameter")
        for param, buffer in func.buffer_map.items():
            if param not in self.defined:
                self.fail(
                    param,
                    f"buffer_map names {param.name!r}, which is not a parameter",
                    "add it to params",
                )
            self._define_buffer(buffer)
        self.visit(func.body)

    # --- definitions ---

    def _define(self, var: ir.Var, what: str) -> None:
        if var in self.defined:
            self.fail(
                var,
                f"{what} {var.name!r} is defined again inside its own scope",
                "use a new Var for each definition",
            )
        self.defined.add(var)

    @contextmanager
    def _scope(self, variables: Iterable[ir.Var], what: str) -> Iterator[None]:
        outer = set(self.defined)
        for var in variables:
            self._define(var, what)
        yield
        self.defined = outer

    def _define_buffer(self, buffer: ir.Buffer) -> None:
        """A buffer with its memory; variables that stand alone in its layout come with it."""
        self._define(buffer.data, "data pointer")
        for expr in buffer.layout:
            if isinstance(expr, ir.Var):
                self.defined.add(expr)
        self.check_layout(buffer)

    def undefined(self, var: ir.Var) -> None:
        block = self._iterators.get(var)
        if block is not None:
            self.fail(
                var,
                f"iterator {var.name!r} of block {block!r} is used outside of its block",
                "use it only inside the block, or use the loop variables outside",
            )
        super().undefined(var)

    # --- statements that bind ---

    def visit_stmt(self, node: ir.Stmt) -> None:
        with self.inside(node):
            self.generic_visit(node)

    def visit_for(self, node: ir.For) -> None:
        with self.inside(node):
            for part in (node.min, node.extent, *nodes_in(node.annotations)):
                self.visit(part)
            if not node.loop_var.dtype.is_integral or node.loop_var.dtype.lanes != 1:
                self.fail(
                    node.loop_var,
                    f"loop variable {node.loop_var.name!r} is {node.loop_var.dtype!s}",
                    "loop variables are scalar integers",
                )
            for bound, name in ((node.min, "min"), (node.extent, "extent")):
                self.same_type(bound, node.loop_var.dtype, f"the {name} of the loop")
            self.loop_depth[node.loop_var] = len(self.blocks)
            with self._scope((node.loop_var,), "loop variable"):
                self.visit(node.body)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        with self.inside(node):
            self.visit(node.value)
            self.same_type(node.value, node.var.dtype, f"the value of {node.var.name!r}")
            with self._scope((node.var,), "variable"):
                self.visit(node.body)

    def visit_allocate(self, node: ir.Allocate | ir.AllocateConst) -> None:
        with self.inside(node):
            for extent in node.extents:
                self.visit(extent)
                self.integer(extent, "an extent of the allocation")
            with self._scope((node.buffer_var,), "data pointer"):
                self.visit(node.body)

    visit_allocate_const = visit_allocate

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        with self.inside(node):
            self.visit(node.value)
            target = node.node
            new = isinstance(target, ir.IterVar) and target.var not in self.defined
            with self._scope((target.var,) if new else (), "thread variable"):
                self.visit(node.body)

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> None:
        with self.inside(node):
            new = () if node.buffer.data in self.defined else (node.buffer.data,)
            with self._scope(new, "data pointer"):
                self.check_layout(node.buffer)
                self.visit(node.body)

    # --- blocks ---

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        block = node.block
        if len(node.iter_values) != len(block.iter_vars):
            self.fail(
                node.predicate,
                f"block {block.name_hint!r} has {len(block.iter_vars)} iterators "
                f"but {len(node.iter_values)} bindings",
                "bind every iterator once",
            )
        with self.inside(node):
            for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True):
                self.visit(value)
                self.same_type(value, iter_var.var.dtype, f"the binding of {iter_var.var.name!r}")
            self.visit(node.predicate)
            self.boolean(node.predicate, "the predicate of the block")
            self.visit(block)

    def visit_block(self, node: ir.Block) -> None:
        with self.inside(node), self._scope((), ""):
            for iter_var in node.iter_vars:  # domains may use the loops around the block
                self._iterator(node, iter_var)
            self.blocks.append(node)
            self._inside_block(node)
            self.blocks.pop()

    def _inside_block(self, node: ir.Block) -> None:
        for buffer in node.alloc_buffers:
            self._define_buffer(buffer)
        for match in node.match_buffers:
            self.visit(match.source)
            self._define_buffer(match.buffer)
        notes = nodes_in(node.annotations)
        for part in (*node.reads, *node.writes, *notes, node.init, node.body):
            if part is not None:
                self.visit(part)

    def _iterator(self, block: ir.Block, iter_var: ir.IterVar) -> None:
        name = iter_var.var.name
        if iter_var.dom is None:
            self.fail(
                iter_var.var,
                f"iterator {name!r} of block {block.name_hint!r} has no domain",
                "give it one",
            )
        self.integer(iter_var.var, f"iterator {name!r}")
        self._define(iter_var.var, "block iterator")
        self.visit(iter_var.dom)

    def visit_buffer_region(self, node: ir.BufferRegion) -> None:
        self.buffer(node.buffer)
        self.index_count(node.buffer, len(node.region))
        self.generic_visit(node)

    # --- statements that only need types ---

    def visit_seq_stmt(self, node: ir.SeqStmt) -> None:
        for each in node.seq:
            if isinstance(each, ir.SeqStmt):
                self.fail(
                    each, "a SeqStmt lies inside a SeqStmt", "build it with tilewright.ir.seq"
                )
        self.generic_visit(node)

    def _condition(self, node: ir.IfThenElse | ir.While | ir.AssertStmt) -> None:
        with self.inside(node):
            self.generic_visit(node)
            self.boolean(node.condition, "the condition")

    visit_if_then_else = visit_while = visit_assert_stmt = _condition

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        with self.inside(node):
            self.access(node.buffer, node.indices, node.predicate)
            self.generic_visit(node)
            lanes = node.indices[-1].dtype.lanes if node.indices else 1
            wanted = node.buffer.dtype.with_lanes(node.buffer.dtype.lanes * lanes)
            if node.value.dtype is not wanted:
                self.fail(
                    node.value,
                    f"a value of {node.value.dtype!s} is stored to {node.buffer.name}, "
                    f"which takes {wanted!s}",
                    f"convert it with .astype({str(wanted)!r})",
                )
