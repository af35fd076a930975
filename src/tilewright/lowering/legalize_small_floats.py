"""bfloat16, float16 and float8 are stored as they are, and computed with in float32.

A value is rounded where the program stores or casts it, not after every operation. A type that the
target computes with itself is left alone.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.target import Target

SMALL_FLOATS = frozenset({"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"})
_COMPUTE_HALVES = frozenset({"avx512fp16", "fullfp16"})  # features of CPUs
# Operators that take or give bits and addresses rather than numbers.
_OPAQUE_OPS = {
    "tir.reinterpret", "tir.address_of", "tir.tvm_access_ptr", "tir.type_annotation",
    "tir.call_extern", "tir.call_pure_extern", "tir.call_llvm_intrin",
    "tir.call_llvm_pure_intrin", "tir.call_packed", "tir.tvm_call_packed", "tir.atomic_add",
    "tir.tvm_stack_make_array", "tir.ptx_mma", "tir.ptx_mma_sp", "tir.ptx_ldmatrix",
    "tir.ptx_cp_async", "tir.mma_fill", "tir.mma_store", "tir.tvm_fill_fragment",
}  # fmt: skip


def small_floats_of(target: Target | None) -> frozenset[str]:
    """The types whose arithmetic the target lacks."""
    if target is None:
        return SMALL_FLOATS
    # All GPUs compute with halves, two at a time.
    has_halves = not target.is_cpu or not _COMPUTE_HALVES.isdisjoint(target.features)
    return SMALL_FLOATS - {"float16"} if has_halves else SMALL_FLOATS


def _is_opaque(call: ir.Call) -> bool:
    return not isinstance(call.op, ir.Op) or call.op.name in _OPAQUE_OPS


class _Promoter(ir.Rewriter):
    """Returns small floats as float32; every other type stays what it is."""

    def __init__(self, small: frozenset[str]) -> None:
        self._small = small
        self._vars: dict[ir.Var, ir.Var] = {}

    def _is_small(self, dtype: ir.DType) -> bool:
        return dtype.element_of in self._small

    def _promoted(self, value: ir.PrimExpr) -> ir.PrimExpr:
        return ir.cast(ir.FLOAT32.with_lanes(value.dtype.lanes), value)

    def _stored(self, value: ir.PrimExpr, dtype: ir.DType) -> ir.PrimExpr:
        """A promoted value in the type it is kept in; a mere copy needs no conversion."""
        if value.dtype is dtype:
            return value
        if isinstance(value, ir.Cast) and value.value.dtype is dtype:
            return value.value
        return ir.cast(dtype, value)

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        if node in self._vars:
            return self._vars[node]
        return self._promoted(node) if self._is_small(node.dtype) else node

    def visit_float_imm(self, node: ir.FloatImm) -> ir.PrimExpr:
        if not self._is_small(node.dtype):
            return node
        return ir.FloatImm(ir.FLOAT32, float(to_numpy(node.dtype).type(node.value)))

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        node = ir.map_children(node, self.visit)
        return self._promoted(node) if self._is_small(node.dtype) else node

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Stmt:
        value = self._stored(self.visit(node.value), node.value.dtype)
        indices = ir.map_tuple(node.indices, self.visit)
        return ir.updated(node, value=value, indices=indices)

    def visit_cast(self, node: ir.Cast) -> ir.PrimExpr:
        value = self.visit(node.value)
        if not self._is_small(node.dtype):
            return node if value is node.value else ir.cast(node.dtype, value)
        return self._promoted(ir.Cast(node.dtype, value))

    def visit_evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        if isinstance(node.value, ir.Call) and _is_opaque(node.value):
            return ir.updated(node, value=self._opaque(node.value))  # its type is no number's
        return ir.map_children(node, self.visit)

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if _is_opaque(node):
            result = self._opaque(node)
            return self._promoted(result) if self._is_small(node.dtype) else result
        call = ir.map_children(node, self.visit)
        if self._is_small(node.dtype):
            return ir.replace(call, dtype=ir.FLOAT32.with_lanes(node.dtype.lanes))
        return call

    def _opaque(self, node: ir.Call) -> ir.Call:
        args = ir.map_tuple(node.args, lambda arg: self._stored(self.visit(arg), arg.dtype))
        return node if args is node.args else ir.replace(node, args=args)

    def visit_let(self, node: ir.Let | ir.LetStmt) -> ir.Node:
        value = self.visit(node.value)
        var = node.var
        if value.dtype is not var.dtype and self._is_small(var.dtype):
            var = self._vars[node.var] = ir.Var(var.name, value.dtype)
        return ir.updated(node, var=var, value=value, body=self.visit(node.body))

    visit_let_stmt = visit_let


# Through these a small float can enter an expression.
_ENTRIES = (ir.BufferLoad, ir.Cast, ir.Var, ir.FloatImm, ir.Call)


@register_pass
class LegalizeSmallFloats(FunctionPass):
    """Compute with 16-bit and 8-bit floats in float32 where the target cannot do it itself."""

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        entries = (node for node in ir.walk(func.body) if isinstance(node, _ENTRIES))
        if not any(node.dtype.element_of in SMALL_FLOATS for node in entries):
            return func
        return func.with_body(_Promoter(small_floats_of(target)).rewrite(func.body))
