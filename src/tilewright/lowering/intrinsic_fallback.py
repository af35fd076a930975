"""Replaces instructions that the target lacks by the programs that describe them.

A tensorized block carries the implementation of an instruction. If it is that of an instruction
whose CPU features the target does not have, the description takes its place, on the same operands:
a program that was scheduled for one machine runs right on any other, only slower.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright import ir
from tilewright.ir import tensor_intrin as intrins
from tilewright.ir.clone import Cloner
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.target import Target

# Only through these can an implementation depend on a machine.
_MACHINE_CALLS = frozenset(
    {"tir.call_llvm_intrin", "tir.call_llvm_pure_intrin", "tir.call_extern", "tir.call_pure_extern"}
)


def _calls_machine(stmt: ir.Stmt) -> bool:
    """True if something is called that not every machine has."""
    calls = ir.nodes_of(stmt, ir.Call)
    return any(isinstance(call.op, ir.Op) and call.op.name in _MACHINE_CALLS for call in calls)


def _missing_intrin(block: ir.Block, features: frozenset[str]) -> TensorIntrin | None:
    """The instruction that the block issues, if a target with these features cannot.

    Two instructions may have one implementation (one extension among several will do), so none
    is missing while another is there. What was tensorized in this process has been made, and
    on a machine that has it nothing else needs to be made to see that.
    """
    if not block.match_buffers or not _calls_machine(block.body):
        return None
    known = intrins.all_tensor_intrins()
    names = [name for name in known if intrins.features_of_intrin(name)]
    there = [name for name in names if intrins.features_of_intrin(name) <= features]
    for name in sorted(there, key=intrins.is_made, reverse=True):
        if is_implementation(block, _get(name)):
            return None
    missing = (name for name in names if name not in there)
    return next((found for found in map(_get, missing) if is_implementation(block, found)), None)


def _get(name: str) -> TensorIntrin:
    found = TensorIntrin.get(name)
    assert found is not None
    return found


def is_implementation(block: ir.Block, intrin: TensorIntrin) -> bool:
    """True if a block does what `tensorize` makes of one that `intrin` carries out."""
    wanted = intrins.parameters(intrin.impl)
    views = [match.buffer for match in block.match_buffers[: len(wanted)]]
    if [_kind(view) for view in views] != [_kind(buffer) for buffer in wanted]:
        return False
    own = ir.replace(block, match_buffers=block.match_buffers[len(wanted) :])
    return ir.structural_equal(_as_function(views, own), _renewed(intrin, _index_dtype(views)))


def _kind(buffer: ir.Buffer) -> tuple[ir.DType, str, int]:
    return buffer.dtype, buffer.scope, len(buffer.shape)


def _index_dtype(views: list[ir.Buffer]) -> ir.DType:
    """The type that `tensorize` gave to the variables of an implementation."""
    parts = (expr for view in views for expr in (view.elem_offset, *view.strides))
    return next((expr.dtype for expr in parts if isinstance(expr, ir.Var)), ir.INT32)


@lru_cache(maxsize=256)
def _renewed(intrin: TensorIntrin, index_dtype: ir.DType) -> ir.PrimFunc:
    """The implementation with indices of that type."""
    cloner = Cloner(index_dtype)
    buffers = [cloner.define_buffer(buffer) for buffer in intrins.parameters(intrin.impl)]
    root = ir.replace(intrins.root_block_of(intrin.impl), reads=(), writes=())
    return _as_function(buffers, cloner.rewrite(root))


def _as_function(buffers: list[ir.Buffer], block: ir.Block) -> ir.PrimFunc:
    """What a block does with buffers, in a form that can be compared."""
    params = tuple(ir.Var(buffer.name, ir.HANDLE) for buffer in buffers)
    inner = ir.Block((), (), (), "", block.body, None, block.alloc_buffers, block.match_buffers)
    return ir.PrimFunc(params, ir.root_realize(inner), dict(zip(params, buffers, strict=True)))


def _described(block: ir.Block, intrin: TensorIntrin) -> ir.Block:
    """The block with the description of an instruction in place of its implementation."""
    cloner = Cloner(_index_dtype([match.buffer for match in block.match_buffers]))
    wanted = intrins.parameters(intrin.desc)
    views = tuple(
        ir.MatchBufferRegion(cloner.define_buffer(buffer), match.source)
        for buffer, match in zip(wanted, block.match_buffers, strict=False)
    )
    body = cloner.rewrite(ir.replace(intrins.root_block_of(intrin.desc), reads=(), writes=()))
    return ir.replace(
        block,
        body=body.body,
        alloc_buffers=body.alloc_buffers,
        match_buffers=(*views, *body.match_buffers),
    )


@register_pass
class IntrinsicFallback(FunctionPass):
    """Run the description of an instruction that the target does not have."""

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        if target is None or not target.is_cpu or not _calls_machine(func.body):
            return func
        # C has no names for instructions.
        features = frozenset() if target.kind.name == "c" else target.features

        def described(block: ir.Block) -> ir.Block | None:
            missing = _missing_intrin(block, features)
            return None if missing is None else _described(block, missing)

        return ir.rewrite(func, before={ir.Block: described})
