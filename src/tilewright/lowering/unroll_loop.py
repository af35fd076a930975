"""Loops to be unrolled: expanded here, or marked for the backend.

A loop of kind UNROLLED is unrolled always. Inside `pragma_auto_unroll_max_step` a serial loop of
constant extent is, too, if nothing below it remains a loop and its steps stay within the limit.
Sums become registers only if all loops that choose one of them are unrolled; others gain little
from copies, and compilers take long to look at them, so `plain_max_step` may limit them further.
Whether the copies are written out here (`expand`) or the loop stays as an UNROLLED hint makes
no difference to its meaning: code generators expand hints while they emit, which is much cheaper.
"""

from __future__ import annotations

import math

from tilewright import ir
from tilewright.ir.annotation_keys import AUTO_UNROLL_MAX_STEP, UNROLL_EXPLICIT_PRAGMA
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.rewriters import FoldingSubstituter, StmtRewriter
from tilewright.target import Target

REGISTER_BYTES = 64  # of the widest vectors
REGISTERS = 32
EXPLICIT_ANNOTATION = "unroll_explicit"


@register_pass
class UnrollLoop(FunctionPass):
    """Unroll loops that ask for it, and small ones where a pragma allows it."""

    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True
    unroll_local_access: bool = False
    expand: bool = True
    plain_max_step: int | None = None  # of loops that choose no register

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        return func.with_body(_Unroller(self).rewrite(func.body))


class _Unroller(StmtRewriter):
    """Counts, for the statement just visited, its steps and the loops inside it."""

    def __init__(self, options: UnrollLoop) -> None:
        self._options = options
        self._max_step = options.auto_max_step
        self._explicit = options.explicit_unroll
        self._steps = 0
        self._unrolled_depth = 0
        self._serial_depth = 0
        self._local_only = True
        self._allocated: set[ir.Var] = set()
        self._chosen_by: set[ir.Var] = set()  # what the registers of sums depend on

    def visit_allocate(self, node: ir.Allocate) -> ir.Stmt:
        self._allocated.add(node.buffer_var)
        return self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        # A store of several registers is several instructions.
        size = node.value.dtype.lanes * node.buffer.dtype.bits // 8
        self._steps += max(1, size // REGISTER_BYTES)
        self._local_only = self._local_only and node.buffer.scope == "local"
        if node.buffer.data in self._allocated and _is_sum_in_registers(node):
            self._chosen_by.update(var for index in node.indices for var in ir.free_vars(index))
        return node

    def visit_evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        self._steps += 1
        self._local_only = False
        return node

    def visit_attr_stmt(self, node: ir.AttrStmt) -> ir.Stmt:
        outer = self._max_step, self._explicit
        if node.attr_key == AUTO_UNROLL_MAX_STEP:
            self._max_step = int_of(node)
        elif node.attr_key == UNROLL_EXPLICIT_PRAGMA:
            self._explicit = bool(int_of(node))
        else:
            return self.generic_visit(node)
        body = self.rewrite(node.body)
        self._max_step, self._explicit = outer
        return body

    def visit_seq_stmt(self, node: ir.SeqStmt) -> ir.Stmt:
        changed = False
        steps, unrolled, serial, statements = 0, 0, 0, []
        for child in node.seq:
            self._steps = self._unrolled_depth = self._serial_depth = 0
            new = self.visit(child)
            changed = changed or new is not child
            statements.append(new)
            steps += self._steps
            unrolled = max(unrolled, self._unrolled_depth)
            serial = max(serial, self._serial_depth)
        self._steps, self._unrolled_depth, self._serial_depth = steps, unrolled, serial
        return ir.seq(statements) if changed else node

    def visit_for(self, node: ir.For) -> ir.Stmt:
        self._steps = self._unrolled_depth = self._serial_depth = 0
        self._local_only = True
        before, self._chosen_by = self._chosen_by, set()
        body = self.visit(node.body)
        node = node if body is node.body else ir.replace(node, body=body)
        extent = node.extent.value if isinstance(node.extent, ir.IntImm) else None
        is_wanted = extent is not None and self._wants_unrolling(node, extent)
        self._chosen_by = (self._chosen_by - {node.loop_var}) | before
        if extent is None or not is_wanted:
            self._serial_depth += 1
            kind = ir.ForKind.SERIAL if node.kind == ir.ForKind.UNROLLED else node.kind
            return node if kind == node.kind else ir.replace(node, kind=kind)
        self._steps *= max(extent, 1)
        self._unrolled_depth += 1
        return self._unroll(node, extent)

    def _wants_unrolling(self, node: ir.For, extent: int) -> bool:
        if node.kind == ir.ForKind.UNROLLED:
            return True
        if node.kind != ir.ForKind.SERIAL or self._serial_depth or extent == 0:
            return False
        if self._unrolled_depth >= self._options.auto_max_depth:
            return False
        if self._options.unroll_local_access and self._local_only:
            return True
        small_extent = extent <= self._options.auto_max_extent
        limit = self._max_step
        if not self._chosen_by and self._options.plain_max_step is not None:
            limit = min(limit, self._options.plain_max_step)
        return extent * self._steps <= limit or small_extent

    def _unroll(self, node: ir.For, extent: int) -> ir.Stmt:
        if self._explicit and self._options.expand:
            return _expanded(node, extent)
        annotations = dict(node.annotations)
        if self._explicit:
            annotations[EXPLICIT_ANNOTATION] = True
        if node.kind == ir.ForKind.UNROLLED and annotations == node.annotations:
            return node
        return ir.replace(node, kind=ir.ForKind.UNROLLED, annotations=annotations)


def element_bytes(buffer: ir.Buffer) -> int:
    """Bytes of one element of a buffer, at least 1."""
    return max(1, buffer.dtype.bits * buffer.dtype.lanes // 8)


def _is_sum_in_registers(store: ir.BufferStore) -> bool:
    """Whether a store updates memory that is no larger than all registers."""
    buffer = store.buffer
    extents = [extent.value for extent in buffer.shape if isinstance(extent, ir.IntImm)]
    if len(extents) < len(buffer.shape):
        return False
    if math.prod(extents) * element_bytes(buffer) > REGISTERS * REGISTER_BYTES:
        return False
    return any(isinstance(n, ir.BufferLoad) and n.buffer is buffer for n in ir.walk(store.value))


def int_of(node: ir.AttrStmt) -> int:
    """The number that a pragma gives."""
    return node.value.value if isinstance(node.value, ir.IntImm) else 0


def _expanded(node: ir.For, extent: int) -> ir.Stmt:
    copies = []
    for step in range(extent):
        value = ir.add(node.min, ir.const(step, node.loop_var.dtype))
        substituter = FoldingSubstituter({node.loop_var: value}, fresh_binders=step > 0)
        copies.append(substituter.rewrite(node.body))
    return ir.seq(copies)
