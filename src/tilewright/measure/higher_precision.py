"""A program in higher precision: what its results would be if nothing on the way were rounded.

The arguments keep their types. Every float in between is computed and kept in float64: buffers that
the function allocates, constants, and results, which are rounded once, by copies at the end. They
are copied in at the beginning, too, since a program may read or leave alone what it is given.

What calls things that are not plain mathematics, or has pointers, is beyond this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRewriter,
    BufferStore,
    Call,
    Cast,
    DType,
    FloatImm,
    For,
    ForKind,
    IRModule,
    Let,
    LetStmt,
    PointerType,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    Visitor,
    cast,
    map_children,
    replace,
    seq,
)
from tilewright.ir.op import MATH_OPS, Op
from tilewright.measure.artifact import precise_name
from tilewright.schedule.caches.copy_block import (
    make_copy_block,
    realize_in_loops,
    spatial_iterator,
)

WIDE = DType("float64")


class _CannotWiden(Exception):
    """The program has a part whose meaning depends on the types as they are."""


def with_precise_twin(mod: IRModule) -> IRModule:
    """The module, and each function that can be computed in higher precision a second time."""
    for name, func in mod.functions.items():
        precise, twin = in_higher_precision(func), precise_name(name)
        if precise is not None:
            mod = mod.with_function(twin, precise.with_attr("global_symbol", twin))
    return mod


def in_higher_precision(func: PrimFunc) -> PrimFunc | None:
    """The function in higher precision; None where that is impossible or makes no difference."""
    if not isinstance(func.body, BlockRealize):
        return None
    widener = _Widener(func)
    try:
        body = widener.rewrite(func.body)
    except _CannotWiden:
        return None
    return func.with_body(_between_copies(body, widener.results)) if widener.results else None


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_float and dtype.element_of != WIDE


def _widened(buffer: Buffer) -> Buffer:
    """A buffer for the same elements in float64."""
    data = Var(buffer.data.name, buffer.data.dtype, PointerType(WIDE, buffer.scope))
    return replace(buffer, data=data, dtype=WIDE.with_lanes(buffer.dtype.lanes))


def _between_copies(body: BlockRealize, results: Mapping[Buffer, Buffer]) -> BlockRealize:
    """The body, which works on wide buffers, between copies from and to the arguments."""
    root = body.block
    statements = [
        *(_copy(f"{narrow.name}_in", narrow, wide) for narrow, wide in results.items()),
        root.body,
        *(_copy(f"{narrow.name}_out", wide, narrow) for narrow, wide in results.items()),
    ]
    buffers = (*root.alloc_buffers, *results.values())
    return replace(body, block=replace(root, body=seq(statements), alloc_buffers=buffers))


def _copy(name: str, source: Buffer, target: Buffer) -> Stmt:
    iterators = [spatial_iterator(f"v{n}", extent) for n, extent in enumerate(source.shape)]
    loops = [(Var(f"i{n}", extent.dtype), extent) for n, extent in enumerate(source.shape)]
    place = tuple(iterator.var for iterator in iterators)
    block = make_copy_block(name, iterators, (source, place), (target, place))
    return realize_in_loops(loops, [variable for variable, _ in loops], block)


class _Written(Visitor):
    """The buffers that a program writes."""

    def __init__(self) -> None:
        self.found: set[Buffer] = set()

    def visit_buffer_store(self, node: BufferStore) -> None:
        self.found.add(node.buffer)

    def visit_block(self, node: Block) -> None:
        self.found |= {region.buffer for region in node.writes}
        self.generic_visit(node)


class _Widener(BufferRewriter):
    """Every float expression becomes one of float64; all other types stay what they are."""

    def __init__(self, func: PrimFunc) -> None:
        written = _Written()
        written.visit(func.body)
        arguments = tuple(func.buffer_map.values())
        # By argument; a compact buffer, whatever the strides of the argument are.
        self.results = {
            buffer: replace(_widened(buffer), strides=(), elem_offset=None)
            for buffer in arguments
            if buffer in written.found and _is_narrow(buffer.dtype)
        }
        self._buffers = {buffer: self.results.get(buffer, buffer) for buffer in arguments}
        self._vars: dict[Var, Var] = {}

    # --- buffers ---

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        if buffer not in self._buffers:  # memory behind a pointer
            raise _CannotWiden
        return self._buffers[buffer]

    def visit_block(self, node: Block) -> Block:
        for buffer in node.alloc_buffers:
            self._buffers[buffer] = _widened(buffer) if _is_narrow(buffer.dtype) else buffer
        for match in node.match_buffers:
            source = self.visit_buffer(match.source.buffer)
            is_wide = source is not match.source.buffer
            self._buffers[match.buffer] = _widened(match.buffer) if is_wide else match.buffer
        made: Block = super().visit_block(node)
        return made

    def visit_buffer_load(self, node: BufferLoad) -> PrimExpr:
        return _as_wide(super().visit_buffer_load(node))

    def visit_buffer_store(self, node: BufferStore) -> Stmt:
        made: BufferStore = super().visit_buffer_store(node)
        return replace(made, value=cast(_type_in(made), made.value))

    # --- values ---

    def visit_var(self, node: Var) -> PrimExpr:
        return _as_wide(self._vars.get(node, node))

    def visit_float_imm(self, node: FloatImm) -> PrimExpr:
        return FloatImm(WIDE, node.value)

    def visit_cast(self, node: Cast) -> PrimExpr:
        return cast(_wide_type(node.dtype), self.visit(node.value))

    def visit_call(self, node: Call) -> PrimExpr:
        if not isinstance(node.op, Op) or node.op.name not in MATH_OPS:
            raise _CannotWiden
        return replace(map_children(node, self.visit), dtype=_wide_type(node.dtype))

    def _bind(self, node: Any) -> Any:
        value = self.visit(node.value)
        var = self._vars[node.var] = Var(node.var.name, value.dtype)
        return replace(node, var=var, value=value, body=self.visit(node.body))

    def visit_let(self, node: Let) -> object:
        return self._bind(node)

    def visit_let_stmt(self, node: LetStmt) -> object:
        return self._bind(node)

    # --- what is left alone, and what depends on the types as they are ---

    def visit_for(self, node: For) -> Stmt:
        if node.kind is ForKind.THREAD_BINDING:
            raise _CannotWiden
        return map_children(node, self.visit)

    def _refuse(self, node: Stmt) -> Stmt:
        raise _CannotWiden

    visit_allocate = visit_allocate_const = visit_decl_buffer = visit_attr_stmt = _refuse


def _wide_type(dtype: DType) -> DType:
    return WIDE.with_lanes(dtype.lanes) if dtype.is_float else dtype


def _as_wide(value: PrimExpr) -> PrimExpr:
    return cast(_wide_type(value.dtype), value)


def _type_in(store: BufferStore) -> DType:
    """The type of what a statement stores."""
    return BufferLoad(store.buffer, store.indices).dtype
