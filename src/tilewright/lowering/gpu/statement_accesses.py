"""The accesses of single statements to shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tilewright import ir
from tilewright.lowering.gpu.shared_accesses import Access
from tilewright.lowering.rewriters import ADDRESS_OF, IF_THEN_ELSE
from tilewright.lowering.widen_expr import conjuncts

_ACCESS_PTR = ir.Op.get("tir.tvm_access_ptr")
_CP_ASYNC = ir.Op.get("tir.ptx_cp_async")
_WAIT_GROUP = ir.Op.get("tir.ptx_wait_group")
_LDMATRIX = ir.Op.get("tir.ptx_ldmatrix")
_TILES = {ir.Op.get("tir.tvm_load_matrix_sync"), ir.Op.get("tir.tvm_store_matrix_sync")}
_READ, _WRITE = 1, 2  # the bits of the access mask of tvm_access_ptr


@dataclass(frozen=True)
class Found:
    """What a statement touches: as others before it see it, and as others after it do."""

    entry: tuple[Access, ...]
    exit: tuple[Access, ...]


def is_shared(data: ir.Var) -> bool:
    """True for memory of a block of threads."""
    pointer = data.type_annotation
    return pointer is not None and pointer.storage_scope.startswith("shared")


class AccessFinder:
    """Finds accesses; knows the conditions and bindings around the current place."""

    def __init__(self, kernel: ir.Stmt) -> None:
        self._values: dict[ir.Var, ir.PrimExpr] = {}
        self._tests: list[ir.PrimExpr] = []
        copies = [call for call in ir.nodes_of(kernel, ir.Call) if call.op is _CP_ASYNC]
        self._copied = {_destination(call): None for call in copies}

    def bind(self, var: ir.Var, value: ir.PrimExpr) -> None:
        """Let a variable stand for its value in what follows."""
        self._values[var] = ir.substitute(value, self._values)

    @contextmanager
    def under(self, condition: ir.PrimExpr) -> Iterator[None]:
        """What is found inside happens where a condition holds."""
        outside = list(self._tests)
        self._tests += [ir.substitute(test, self._values) for test in conjuncts(condition)]
        yield
        self._tests = outside

    def of(self, stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Found:
        """The accesses of a statement that contains no other."""
        collector = _Collector(self._values, self._tests, loops)
        collector.visit(stmt)
        plain = tuple(collector.found)
        waited = _is_call(stmt, _WAIT_GROUP)
        landed = [Access(data, True, None, 1) for data in self._copied] if waited else []
        return Found((*plain, *collector.issued), (*plain, *landed))

    def of_header(self, stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> tuple[Access, ...]:
        """The accesses of a compound statement apart from those of its parts."""
        collector = _Collector(self._values, self._tests, loops)
        for child in ir.children(stmt):
            if not isinstance(child, ir.Stmt):
                collector.visit(child)
        return tuple(collector.found)


def _tile_shape(
    fragment: ir.PrimExpr, sizes: list[ir.PrimExpr], layout: ir.PrimExpr
) -> tuple[int, int] | None:
    """The rows of a tile in memory, and the elements in each."""
    pointer = fragment.type_annotation if isinstance(fragment, ir.Var) else None
    if pointer is None or not all(isinstance(size, ir.IntImm) for size in sizes):
        return None
    m, n, k = (size.value for size in sizes if isinstance(size, ir.IntImm))
    shapes = {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n), "wmma.accumulator": (m, n)}
    if pointer.storage_scope not in shapes:
        return None
    rows, columns = shapes[pointer.storage_scope]
    is_row_major = isinstance(layout, ir.StringImm) and layout.value == "row_major"
    return (rows, columns) if is_row_major else (columns, rows)


def _is_call(stmt: ir.Stmt, op: ir.Op) -> bool:
    value = stmt.value if isinstance(stmt, ir.Evaluate) else None
    return isinstance(value, ir.Call) and value.op is op


def _destination(call: ir.Call) -> ir.Var:
    """The memory that an asynchronous copy fills."""
    data = call.args[0]
    if isinstance(data, ir.Call) and data.op is _ACCESS_PTR:
        data = data.args[1]
    assert isinstance(data, ir.Var)
    return data


class _Collector(ir.Visitor):
    def __init__(
        self,
        values: dict[ir.Var, ir.PrimExpr],
        tests: list[ir.PrimExpr],
        loops: tuple[ir.For, ...],
    ) -> None:
        self._values = values
        self._tests = list(tests)
        self._loops = loops
        self.found: list[Access] = []
        self.issued: list[Access] = []  # copies that land later

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self.generic_visit(node)
        if is_shared(node.buffer.data):
            self._access(node, isinstance(node, ir.BufferStore))

    visit_buffer_store = visit_buffer_load

    def _access(self, node: ir.BufferLoad | ir.BufferStore, is_write: bool) -> None:
        (index,), dtype = node.indices, node.buffer.dtype
        size = dtype.nbytes
        data, first, count = node.buffer.data, index, 1
        if isinstance(index, ir.Ramp) and ir.is_one(index.stride):
            first, count = index.base, index.lanes
        if first.dtype.lanes > 1:
            self.found.append(Access(data, is_write, None, size))
            return
        self._add(data, is_write, first, size, count)

    def _add(self, data: ir.Var, is_write: bool, first: ir.PrimExpr, size: int, count: int) -> None:
        first = ir.substitute(first, self._values)
        tests = tuple(self._tests)
        self.found.append(
            Access(data, is_write, first, size, count, loops=self._loops, tests=tests)
        )

    def visit_call(self, node: ir.Call) -> None:
        if node.op is IF_THEN_ELSE:
            self._choice(node)
        elif node.op is _ACCESS_PTR:
            self._pointer(node)
        elif node.op is _CP_ASYNC:
            self._copy(node)
        elif node.op in _TILES:
            self._tile(node)
        elif node.op is _LDMATRIX:
            self._rows(node)
        elif node.op is ADDRESS_OF and isinstance(node.args[0], ir.BufferLoad):
            self.visit_var(node.args[0].buffer.data)
            for index in node.args[0].indices:
                self.visit(index)
        else:
            self.generic_visit(node)

    def _choice(self, node: ir.Call) -> None:
        condition, yes, no = node.args
        self.visit(condition)
        for test, value in ((condition, yes), (ir.logical_not(condition), no)):
            outside = list(self._tests)
            self._tests += [ir.substitute(part, self._values) for part in conjuncts(test)]
            self.visit(value)
            self._tests = outside

    def visit_var(self, node: ir.Var) -> None:
        """Memory that is handed over as a whole."""
        if node.dtype.is_handle and is_shared(node):
            self.found.append(Access(node, True, None, 1))

    def _pointer(self, node: ir.Call) -> None:
        kind, data, offset, extent, mask = node.args
        if not isinstance(data, ir.Var) or not is_shared(data):
            return
        known = isinstance(mask, ir.IntImm) and isinstance(extent, ir.IntImm)
        size = kind.dtype.nbytes
        if not known or ir.has_load(offset):
            self.found.append(Access(data, True, None, size))
            return
        assert isinstance(mask, ir.IntImm)
        assert isinstance(extent, ir.IntImm)
        first, tests = ir.substitute(offset, self._values), tuple(self._tests)
        for bit in (_READ, _WRITE):
            if mask.value & bit:
                access = Access(data, bit == _WRITE, first, size, extent.value, by_warp=True)
                self.found.append(replace(access, loops=self._loops, tests=tests))

    def _tile(self, node: ir.Call) -> None:
        """`tvm_load_matrix_sync(fragment, m, n, k, index, pointer, stride, layout)`, or a store."""
        fragment, *sizes = node.args[:4]
        pitch, layout = node.args[6:8]
        before = len(self.found)
        self.visit(node.args[5])
        shape = _tile_shape(fragment, sizes, layout)
        if shape is None or not isinstance(pitch, ir.IntImm):
            return
        for place, found in enumerate(self.found[before:], before):
            if found.index is not None:
                self.found[place] = replace(found, rows=shape[0], count=shape[1], pitch=pitch.value)

    def _rows(self, node: ir.Call) -> None:
        """`ptx_ldmatrix(..., pointer, offset)`: each lane names a row of 16 bytes."""
        before = len(self.found)
        self.visit(node.args[5])
        offset = ir.substitute(node.args[6], self._values)
        for place, found in enumerate(self.found[before:], before):
            if found.index is not None:
                self.found[place] = replace(
                    found, index=found.index + offset, count=max(1, 16 // found.size)
                )

    def _copy(self, node: ir.Call) -> None:
        """`ptx_cp_async(destination, offset, source, offset, bytes, ...)`, offsets in elements."""
        before = len(self.found)
        data, offset, length = _destination(node), node.args[1], node.args[4]
        size = -(-node.dtype.bits // 8)
        if isinstance(node.args[0], ir.Var) and isinstance(length, ir.IntImm):
            self._add(data, True, offset, size, max(1, length.value // size))
        else:
            self.found.append(Access(data, True, None, size))
        self.issued += self.found[before:]
        del self.found[before:]
        for arg in node.args[5:]:
            self.visit(arg)
