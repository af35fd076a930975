"""A scheduled function as a list of stores, each with its loops and what it accesses.

One walk over the blocks gives what features are computed from; nothing is lowered. What lowering
would do to the program is done on the way: block iterators become what they are bound to, unit
loops vanish, `match_buffer` views become the buffers behind them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright.features.affine import Affine, IndexReader
from tilewright.features.store_value import Counts, never_holds, read_value
from tilewright.ir import (
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    MatchBufferRegion,
    Node,
    PrimExpr,
    PrimFunc,
    Stmt,
    children,
    logical_not,
)

Indices = tuple[Affine, ...]
# Blocks that only change the layout of constant weights, which is done once before all runs.
LAYOUT_REWRITE = "meta_schedule.layout_rewrite_preproc"
UNROLL_STEP = "pragma_auto_unroll_max_step"


class Loop:
    """A loop around a store; loops are compared by identity."""

    __slots__ = ("extent", "kind", "tag", "unroll_step", "var")

    def __init__(self, node: For) -> None:
        self.var = node.loop_var
        # A loop of unknown length counts as one iteration.
        self.extent = max(0, node.extent.value) if isinstance(node.extent, IntImm) else 1
        self.kind = node.kind
        self.tag = node.thread_binding.thread_tag if node.thread_binding is not None else ""
        step = node.annotations.get(UNROLL_STEP, 0)
        self.unroll_step = max(int(step), 0)


@dataclass(slots=True)
class Store:
    """A store of something that is not a constant."""

    buffer: Buffer
    indices: Indices
    counts: Counts  # of operations outside of indices
    loads: list[tuple[Buffer, Indices]]
    loops: tuple[Loop, ...]


@dataclass(slots=True)
class Allocation:
    """A buffer that the function makes, and everything that touches it."""

    buffer: Buffer
    common: tuple[Loop, ...] | None = None  # the loops around all accesses
    boxes: list[tuple[Indices, Indices]] = field(default_factory=list)  # first and last element


@dataclass(slots=True)
class Nest:
    """What the walk found."""

    reader: IndexReader
    stores: list[Store] = field(default_factory=list)
    allocations: dict[Buffer, Allocation] = field(default_factory=dict)


class NestWalker:
    """Walks a function once."""

    def __init__(self) -> None:
        self._reader = IndexReader()
        self.nest = Nest(self._reader)
        self._loops: tuple[Loop, ...] = ()
        self._views: dict[Buffer, tuple[Buffer, Indices]] = {}

    def visit(self, node: Stmt) -> None:
        match node:
            case For():
                self._visit_loop(node)
            case BlockRealize():
                self._visit_block(node)
            case BufferStore():
                self._visit_store(node)
            case IfThenElse():
                self._visit_condition(node)
            case _:
                self._visit_others(node)

    def _visit_others(self, node: Node) -> None:
        for child in children(node):
            if isinstance(child, Stmt):
                self.visit(child)
            else:
                self._visit_loads(child)

    def _visit_loop(self, node: For) -> None:
        first = node.min.value if isinstance(node.min, IntImm) else 0
        extent = node.extent.value if isinstance(node.extent, IntImm) else None
        self._reader.enter_loop(node.loop_var, first, extent)
        bound = self._loop_of_thread(node)
        if bound is not None:
            self._reader.rename(node.loop_var, bound.var)
            self.visit(node.body)
            return
        vanishes = extent == 1 and node.kind == ForKind.SERIAL and not node.annotations
        if vanishes and first == 0:
            self.visit(node.body)
            return
        outer = self._loops
        self._loops = (*outer, Loop(node))
        self.visit(node.body)
        self._loops = outer

    def _loop_of_thread(self, node: For) -> Loop | None:
        """The loop around that runs over the same threads already."""
        if node.thread_binding is None:
            return None
        tag = node.thread_binding.thread_tag
        return next((loop for loop in self._loops if loop.tag == tag != "vthread"), None)

    def _visit_block(self, node: BlockRealize) -> None:
        block = node.block
        if LAYOUT_REWRITE in block.annotations:
            for region in block.writes:
                self.nest.allocations.pop(region.buffer, None)
            return
        self._reader.enter_block(block, node.iter_values)
        for buffer in block.alloc_buffers:
            self.nest.allocations[buffer] = Allocation(buffer)
        for match in block.match_buffers:
            self._add_view(match)
        if not isinstance(node.predicate, IntImm):
            self._visit_loads(node.predicate)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def _visit_condition(self, node: IfThenElse) -> None:
        self._visit_loads(node.condition)
        for condition, branch in (
            (node.condition, node.then_case),
            (logical_not(node.condition), node.else_case),
        ):
            if branch is not None and not never_holds(condition, self._reader):
                self.visit(branch)

    def _visit_store(self, node: BufferStore) -> None:
        buffer, indices = self._resolve(node.buffer, node.indices)
        self._note_access(buffer, indices, indices)
        if isinstance(node.value, (IntImm, FloatImm)):
            return
        value = read_value(node.value, self._reader)
        if value is not None:
            loads = [self._read_load(load) for load in value.loads]
            self.nest.stores.append(Store(buffer, indices, value.counts, loads, self._loops))

    def _visit_loads(self, node: Node) -> None:
        if isinstance(node, BufferLoad):
            self._read_load(node)
        for child in children(node):
            self._visit_loads(child)

    def _read_load(self, load: BufferLoad) -> tuple[Buffer, Indices]:
        buffer, indices = self._resolve(load.buffer, load.indices)
        self._note_access(buffer, indices, indices)
        return buffer, indices

    def _resolve(self, buffer: Buffer, indices: Iterable[PrimExpr]) -> tuple[Buffer, Indices]:
        """The buffer in memory behind an access, and the indices over loop variables."""
        read = tuple(map(self._reader.read, indices))
        view = self._views.get(buffer)
        if view is None:
            return buffer, read
        source, offsets = view
        leading = len(offsets) - len(read)
        moved = (offset.plus(index) for offset, index in zip(offsets[leading:], read, strict=True))
        return source, (*offsets[:leading], *moved)

    def _add_view(self, match: MatchBufferRegion) -> None:
        region = match.source.region
        buffer, first = self._resolve(match.source.buffer, [axis.min for axis in region])
        last = [axis.min + axis.extent - 1 for axis in region]
        self._views[match.buffer] = (buffer, first)
        self._note_access(buffer, first, self._resolve(match.source.buffer, last)[1])

    def _note_access(self, buffer: Buffer, first: Indices, last: Indices) -> None:
        allocation = self.nest.allocations.get(buffer)
        if allocation is None:
            return
        allocation.boxes.append((first, last))
        self._limit(allocation, self._loops)

    def _limit(self, allocation: Allocation, loops: tuple[Loop, ...]) -> None:
        common = allocation.common
        allocation.common = loops if common is None else _common_prefix(common, loops)


def _common_prefix(a: tuple[Loop, ...], b: tuple[Loop, ...]) -> tuple[Loop, ...]:
    if a is b:
        return a
    length = 0
    for left, right in zip(a, b, strict=False):
        if left is not right:
            break
        length += 1
    return a[:length]


def walk(func: PrimFunc) -> Nest:
    """The stores of a function."""
    walker = NestWalker()
    walker.visit(func.body)
    return walker.nest
