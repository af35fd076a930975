"""Resources of GPU kernels that are lowered already, and widths of vectors in any kernel.

A GPU moves and converts vectors of 16 bytes at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tilewright import ir
from tilewright.arith.numpy_eval import Values, evaluate_on_arrays
from tilewright.errors import ArithError
from tilewright.nest.kernels import Kernel, Leaf
from tilewright.nest.loops import known_extent

VECTOR_BYTES = 16
INDEX_BYTES = 4


def vectors_fit(kernel: Kernel) -> bool:
    """True when no vector of the kernel is too wide."""
    return all(width <= VECTOR_BYTES for leaf in kernel.leaves for width in _widths(leaf))


def _widths(leaf: Leaf) -> Iterator[int]:
    for loop in leaf.loops:
        lanes = known_extent(loop)
        if loop.kind is ir.ForKind.VECTORIZED and lanes is not None and lanes > 1:
            body, values = leaf.realize.block.body, leaf.realize.values
            yield from LaneView(body, values, loop.loop_var, lanes).widths()


class LaneView:
    """A statement as the lanes of a vectorised loop see it."""

    def __init__(
        self, body: ir.Stmt, bindings: Mapping[ir.Var, ir.PrimExpr], lane: ir.Var, lanes: int
    ) -> None:
        self._body = body
        self._bindings = bindings
        self._lane = lane
        self._lanes = lanes

    def widths(self) -> Iterator[int]:
        """Bytes of every vector that the statement moves, converts or indexes with."""
        for node in ir.walk(self._body):
            match node:
                case ir.BufferStore(value=value, indices=indices):
                    yield self._lanes * value.dtype.bits // 8
                    yield from self._index_widths(indices)
                case ir.BufferLoad(indices=indices) if self._varies(node):
                    yield self._lanes * node.dtype.bits // 8
                    yield from self._index_widths(indices)
                case ir.Cast() if self._varies(node):
                    yield self._lanes * node.dtype.bits // 8

    def _varies(self, expr: ir.PrimExpr) -> bool:
        bound = ir.substitute(expr, self._bindings)
        return any(var is self._lane for var in ir.free_vars(bound))

    def _index_widths(self, indices: tuple[ir.PrimExpr, ...]) -> Iterator[int]:
        """An access with gaps between its lanes needs a vector of indices."""
        *outer, last = indices or (ir.const(0),)
        if self._has_gaps(last, 1) or any(self._has_gaps(index, 0) for index in outer):
            yield self._lanes * INDEX_BYTES

    def _has_gaps(self, index: ir.PrimExpr, step: int) -> bool:
        bound = ir.substitute(index, self._bindings)
        values: dict[ir.Var, Values] = {var: np.zeros(1, np.int64) for var in ir.free_vars(bound)}
        if self._lane not in values:
            return False
        values[self._lane] = np.arange(self._lanes)
        try:
            steps = np.diff(evaluate_on_arrays(bound, values))
        except ArithError:
            return False
        is_even = bool((steps == steps[0]).all())
        return is_even and int(steps[0]) != step


_LAUNCHES = ("thread_extent", "virtual_thread")


@dataclass
class KernelNeeds:
    """Extents of the threads by axis, bytes of memory, and bytes of the widest vector.

    A size that is no constant is infinite.
    """

    threads: dict[str, set[float]] = field(default_factory=dict)
    shared_bytes: float = 0
    local_bytes: float = 0
    vector_bytes: float = 0

    def add(self, node: ir.Node) -> None:
        """What a node of the kernel needs."""
        match node:
            case ir.AttrStmt(node=ir.IterVar() as axis, attr_key=key) if key in _LAUNCHES:
                self._launch(axis, node.value)
            case ir.For(thread_binding=ir.IterVar() as axis):
                self._launch(axis, node.extent)
            case ir.For(kind=ir.ForKind.VECTORIZED, extent=ir.IntImm(value=lanes)) if lanes > 1:
                widths = LaneView(node.body, {}, node.loop_var, lanes).widths()
                self.vector_bytes = max([self.vector_bytes, *widths])
            case ir.Allocate():
                self._allocate(node)
            case ir.BufferStore(value=value):
                self._vector(value.dtype)
            case ir.BufferLoad() | ir.Cast():
                self._vector(node.dtype)
            case ir.Ramp() if _size(node.stride) != 1:  # gaps need a vector of indices
                self._vector(node.dtype)

    def _launch(self, axis: ir.IterVar, extent: ir.PrimExpr) -> None:
        self.threads.setdefault(axis.thread_tag, set()).add(_size(extent))

    def _allocate(self, node: ir.Allocate) -> None:
        pointer = node.buffer_var.type_annotation
        scope = pointer.storage_scope if isinstance(pointer, ir.PointerType) else ""
        size = math.prod(map(_size, node.extents)) * node.dtype.nbytes
        if scope.startswith("shared"):
            self.shared_bytes += size
        elif scope == "local":
            self.local_bytes += size
        self._vector(node.dtype)

    def _vector(self, dtype: ir.DType) -> None:
        if dtype.lanes > 1:
            self.vector_bytes = max(self.vector_bytes, dtype.nbytes)


def lowered_kernels(stmt: ir.Stmt) -> Iterator[KernelNeeds]:
    """The needs of each outermost launch of threads with no block in it."""
    outside = ir.walk_statements(stmt, into=lambda node: not is_launch(node))
    for launch in filter(is_launch, outside):
        if not any(ir.nodes_of(launch, ir.BlockRealize)):
            needs = KernelNeeds()
            for node in ir.walk(launch):
                needs.add(node)
            yield needs


def is_launch(node: ir.Node) -> bool:
    """True for a statement that starts threads."""
    match node:
        case ir.AttrStmt():
            return node.attr_key in _LAUNCHES
        case ir.For():
            return node.thread_binding is not None
    return False


def _size(extent: ir.PrimExpr) -> float:
    return extent.value if isinstance(extent, ir.IntImm) else math.inf
