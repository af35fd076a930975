"""Rows in shared memory have their pieces of 16 bytes permuted, so that no bank is asked twice.

Blocks ask for it with the annotation `permuted_layout`; see `LowerOpaqueBlock`, which notes the
length of a row at the allocation. Memory has 32 banks of 4 bytes, which serve 8 pieces of 16 bytes
at a time: those of 8 neighbouring rows at the same column, as `ldmatrix` takes them, must lie in
different eighths of 128 bytes. Rows of p pieces begin in 8 / g of them, g being the greatest common
divisor of p and 8; every 8 / g rows the pieces of a row, g at a time, are therefore exchanged:
piece c of row r is stored at c ^ (r / (8 / g) % g).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import PERMUTED_LAYOUT
from tilewright.ir.intrinsics import bitwise_xor
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass

PIECE_BYTES = 16
PIECES = 8  # that all banks together serve at a time
_CP_ASYNC = ir.Op.get("tir.ptx_cp_async")
_LDMATRIX = ir.Op.get("tir.ptx_ldmatrix")


@dataclass(frozen=True)
class _Layout:
    """How a buffer is permuted; all sizes are in elements."""

    pitch: int  # from one row to the next
    piece: int
    group: int  # pieces that are exchanged with each other
    extent: ir.PrimExpr  # of the whole buffer

    @staticmethod
    def of(node: ir.Allocate, pitch: int) -> _Layout:
        size = node.dtype.nbytes
        if pitch * size % PIECE_BYTES or PIECE_BYTES % size:
            raise LowerError(
                f"{node.buffer_var.name} cannot have a permuted layout: its rows are "
                f"{pitch * size} bytes apart, and pieces of {PIECE_BYTES} are exchanged; choose "
                "another tile, or pad its rows with storage_align"
            )
        group = math.gcd(pitch * size // PIECE_BYTES, PIECES)
        return _Layout(pitch, PIECE_BYTES // size, group, node.extents[0])


class _Permuter(AnalyzingRewriter):
    def __init__(self, func: ir.PrimFunc) -> None:
        super().__init__(func)
        self._layouts: dict[ir.Var, _Layout] = {}

    def visit_allocate(self, node: ir.Allocate) -> Any:
        notes = dict(node.annotations)
        pitch = notes.pop(PERMUTED_LAYOUT, None)
        if pitch is None:
            return ir.map_children(node, self.visit)
        # Padding ends with the last element; its row needs the place of the others.
        rows = ir.floordiv(node.extents[0] + (int(pitch) - 1), int(pitch))
        extents = (self.analyzer.simplify(rows * int(pitch)),)
        node = ir.replace(node, extents=extents, annotations=notes)
        layout = _Layout.of(node, int(pitch))
        if layout.group > 1:
            self._layouts[node.buffer_var] = layout
        return ir.map_children(node, self.visit)

    # --- indices -------------------------------------------------------------------------------

    def _permuted(self, layout: _Layout, index: ir.PrimExpr) -> ir.PrimExpr:
        """Where an element is stored; the parts that do not change stay apart, to be hoisted."""
        simplify = self.analyzer.simplify
        width = layout.group * layout.piece
        column = simplify(ir.floormod(index, width))
        row = ir.floordiv(index, layout.pitch * (PIECES // layout.group))
        mask = simplify(ir.floormod(row, layout.group) * layout.piece)
        if ir.is_zero(mask):
            return index
        start = simplify(ir.floordiv(index, width) * width)
        return ir.add(start, bitwise_xor(column, mask))

    def _checked(self, name: str, layout: _Layout, index: ir.PrimExpr, count: int) -> ir.PrimExpr:
        """Where `count` elements next to each other are stored, which are of one piece."""
        first = ir.floormod(index, math.gcd(count, layout.piece))
        if layout.piece % count or not self.analyzer.can_prove_equal(first, ir.const(0)):
            raise LowerError(
                f"{name} has a permuted layout, but `{index}` and the {count - 1} elements behind "
                f"it are not known to be in one piece of {PIECE_BYTES} bytes; use vectors of "
                f"{layout.piece} elements that begin at multiples of their size"
            )
        return self._permuted(layout, index)

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> Any:
        node = ir.map_children(node, self.visit)
        layout = self._layouts.get(node.buffer.data)
        if layout is None:
            return node
        (index,) = node.indices
        if isinstance(index, ir.Ramp) and ir.is_one(index.stride):
            first = self._checked(node.buffer.name, layout, index.base, index.lanes)
            return ir.replace(node, indices=(ir.Ramp(first, index.stride, index.lanes),))
        if index.dtype.lanes > 1:
            raise self._refusal(node.buffer.data, node)
        return ir.replace(node, indices=(self._permuted(layout, index),))

    visit_buffer_store = visit_buffer_load

    # --- instructions --------------------------------------------------------------------------

    def visit_call(self, node: ir.Call) -> Any:
        if node.op is _LDMATRIX:
            return self._ldmatrix(node)
        taken = [arg for arg in node.args if isinstance(arg, ir.Var) and arg in self._layouts]
        if not taken:
            return super().visit_call(node)
        if node.op is not _CP_ASYNC or taken[0] is not node.args[0]:
            raise self._refusal(taken[0], node)
        return self._copy(node)

    def _ldmatrix(self, node: ir.Call) -> ir.PrimExpr:
        """`ptx_ldmatrix(..., pointer, offset)`: each lane names a row of 16 bytes."""
        *head, pointer, offset = node.args
        data = pointer.args[1] if isinstance(pointer, ir.Call) else pointer
        if not isinstance(data, ir.Var) or data not in self._layouts:
            return super().visit_call(node)
        layout = self._layouts[data]
        is_turned = isinstance(node.args[0], ir.IntImm) and bool(node.args[0].value)
        if not isinstance(pointer, ir.Call) or (is_turned and node.dtype.bits == 8):
            raise self._refusal(data, node)
        kind, _, start, _, mask = pointer.args
        row = self._checked(data.name, layout, ir.add(start, offset), layout.piece)
        zero = ir.const(0, start.dtype)
        whole = ir.replace(pointer, args=(kind, data, zero, layout.extent, mask))
        return ir.replace(node, args=(*head, whole, row))

    def _copy(self, node: ir.Call) -> ir.PrimExpr:
        """`ptx_cp_async(destination, offset, source, offset, bytes, ...)`"""
        data, offset, *source, length = node.args[:5]
        assert isinstance(data, ir.Var)
        if not isinstance(length, ir.IntImm):
            raise self._refusal(data, node)
        layout = self._layouts[data]
        count = length.value * layout.piece // PIECE_BYTES
        to = self._checked(data.name, layout, offset, count)
        rest: Sequence[ir.PrimExpr] = [self.visit(arg) for arg in node.args[5:]]
        return ir.replace(node, args=(data, to, *source, length, *rest))

    def _refusal(self, data: ir.Var, node: ir.Node) -> LowerError:
        return LowerError(
            f"{data.name} has a permuted layout, which loads, stores, ptx_ldmatrix of 16-bit rows "
            f"and ptx_cp_async follow, but `{node}` does not; remove the annotation "
            f"{PERMUTED_LAYOUT!r}"
        )


@function_pass
def InjectPermutedLayout(func: ir.PrimFunc) -> ir.PrimFunc:
    """Exchange the pieces of rows in shared memory as allocations ask for it."""
    allocations = ir.nodes_of(func.body, ir.Allocate)
    if not any(PERMUTED_LAYOUT in each.annotations for each in allocations):
        return func
    return func.with_body(_Permuter(func).rewrite(func.body))
