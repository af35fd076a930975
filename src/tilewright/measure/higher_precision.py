"""A program in higher precision: what its results would be if nothing on the way were rounded.

The arguments keep their types. Every float in between is computed and kept in float64: buffers that
the function allocates, constants, and results, which are rounded once, by copies at the end. They
are copied in at the beginning, too, since a program may read or leave alone what it is given.

What calls things that are not plain mathematics, or has pointers, is beyond this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import ir
from tilewright.ir.op import MATH_OPS
from tilewright.ir.patterns import nodes_of
from tilewright.measure.artifact import precise_name
from tilewright.schedule.caches.copy_block import iterators_over, make_copy_block, realize_in_loops

WIDE = ir.DType("float64")


class _CannotWiden(Exception):
    """The program has a part whose meaning depends on the types as they are."""


def with_precise_twin(mod: ir.IRModule) -> ir.IRModule:
    """The module, and each function that can be computed in higher precision a second time."""
    for name, func in mod.functions.items():
        precise, twin = in_higher_precision(func), precise_name(name)
        if precise is not None:
            mod = mod.with_function(twin, precise.with_attr("global_symbol", twin))
    return mod


def in_higher_precision(func: ir.PrimFunc) -> ir.PrimFunc | None:
    """The function in higher precision; None where that is impossible or makes no difference."""
    if not isinstance(func.body, ir.BlockRealize):
        return None
    widener = _Widener(func)
    try:
        body = widener.rewrite(func.body)
    except _CannotWiden:
        return None
    return func.with_body(_between_copies(body, widener.results)) if widener.results else None


def _is_narrow(dtype: ir.DType) -> bool:
    return dtype.is_float and dtype.element_of != WIDE


def _widened(buffer: ir.Buffer) -> ir.Buffer:
    """A buffer for the same elements in float64."""
    data = ir.Var(buffer.data.name, buffer.data.dtype, ir.PointerType(WIDE, buffer.scope))
    return ir.replace(buffer, data=data, dtype=WIDE.with_lanes(buffer.dtype.lanes))


def _between_copies(
    body: ir.BlockRealize, results: Mapping[ir.Buffer, ir.Buffer]
) -> ir.BlockRealize:
    """The body, which works on wide buffers, between copies from and to the arguments."""
    root = body.block
    statements = [
        *(_copy(f"{narrow.name}_in", narrow, wide) for narrow, wide in results.items()),
        root.body,
        *(_copy(f"{narrow.name}_out", wide, narrow) for narrow, wide in results.items()),
    ]
    buffers = (*root.alloc_buffers, *results.values())
    return ir.replace(body, block=ir.replace(root, body=ir.seq(statements), alloc_buffers=buffers))


def _copy(name: str, source: ir.Buffer, target: ir.Buffer) -> ir.Stmt:
    iterators = iterators_over(source.shape)
    place = tuple(iterator.var for iterator in iterators)
    loops = [(ir.Var(f"i{n}", extent.dtype), extent) for n, extent in enumerate(source.shape)]
    block = make_copy_block(name, iterators, (source, place), (target, place))
    return realize_in_loops(loops, [variable for variable, _ in loops], block)


class _Widener(ir.BufferRewriter):
    """Every float expression becomes one of float64; all other types stay what they are."""

    def __init__(self, func: ir.PrimFunc) -> None:
        written = {store.buffer for store in nodes_of(func.body, ir.BufferStore)}
        for block in nodes_of(func.body, ir.Block):
            written |= {region.buffer for region in block.writes}
        arguments = tuple(func.buffer_map.values())
        # By argument; a compact buffer, whatever the strides of the argument are.
        self.results = {
            buffer: ir.replace(_widened(buffer), strides=(), elem_offset=None)
            for buffer in arguments
            if buffer in written and _is_narrow(buffer.dtype)
        }
        self._buffers = {buffer: self.results.get(buffer, buffer) for buffer in arguments}
        self._vars: dict[ir.Var, ir.Var] = {}

    # --- buffers ---

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        if buffer not in self._buffers:  # memory behind a pointer
            raise _CannotWiden
        return self._buffers[buffer]

    def visit_block(self, node: ir.Block) -> ir.Block:
        for buffer in node.alloc_buffers:
            self._buffers[buffer] = _widened(buffer) if _is_narrow(buffer.dtype) else buffer
        for match in node.match_buffers:
            source = self.visit_buffer(match.source.buffer)
            is_wide = source is not match.source.buffer
            self._buffers[match.buffer] = _widened(match.buffer) if is_wide else match.buffer
        made: ir.Block = super().visit_block(node)
        return made

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        return _as_wide(super().visit_buffer_load(node))

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        made: ir.BufferStore = super().visit_buffer_store(node)
        stored = ir.BufferLoad(made.buffer, made.indices).dtype
        return ir.replace(made, value=ir.cast(stored, made.value))

    # --- values ---

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        return _as_wide(self._vars.get(node, node))

    def visit_float_imm(self, node: ir.FloatImm) -> ir.PrimExpr:
        return ir.FloatImm(WIDE, node.value)

    def visit_cast(self, node: ir.Cast) -> ir.PrimExpr:
        return ir.cast(_wide_type(node.dtype), self.visit(node.value))

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if not isinstance(node.op, ir.Op) or node.op.name not in MATH_OPS:
            raise _CannotWiden
        return ir.replace(ir.map_children(node, self.visit), dtype=_wide_type(node.dtype))

    def _bind(self, node: Any) -> Any:
        value = self.visit(node.value)
        var = self._vars[node.var] = ir.Var(node.var.name, value.dtype)
        return ir.replace(node, var=var, value=value, body=self.visit(node.body))

    visit_let = visit_let_stmt = _bind

    # --- what is left alone, and what depends on the types as they are ---

    def visit_for(self, node: ir.For) -> ir.Stmt:
        if node.kind is ir.ForKind.THREAD_BINDING:
            raise _CannotWiden
        return ir.map_children(node, self.visit)

    def _refuse(self, node: ir.Stmt) -> ir.Stmt:
        raise _CannotWiden

    visit_allocate = visit_allocate_const = visit_decl_buffer = visit_attr_stmt = _refuse


def _wide_type(dtype: ir.DType) -> ir.DType:
    return WIDE.with_lanes(dtype.lanes) if dtype.is_float else dtype


def _as_wide(value: ir.PrimExpr) -> ir.PrimExpr:
    return ir.cast(_wide_type(value.dtype), value)
