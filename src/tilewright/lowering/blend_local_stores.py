"""A masked store into local memory becomes a store of a blend of new and old values.

Masks keep the tails of vectors from writing where they must not. In memory that a kernel allocates
for itself, and where all lanes provably lie inside, writing back what was there is as good; and
unlike masked stores, plain ones can be kept in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tilewright.arith import Analyzer
from tilewright.ir import (
    Allocate,
    BufferLoad,
    BufferStore,
    For,
    IntImm,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Rewriter,
    Select,
    Stmt,
    Var,
    replace,
    structural_equal,
)
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.lowering.walk import StmtRewriter
from tilewright.target import Target


class _Unmasker(Rewriter):
    """Loads local memory without a mask where the mask of the store decides anyway."""

    def __init__(self, mask: PrimExpr, is_inside: Callable[[BufferLoad], bool]) -> None:
        self._mask = mask
        self._is_inside = is_inside

    def visit_buffer_load(self, node: BufferLoad) -> PrimExpr:
        mask = node.predicate
        if mask is None or not self._is_inside(node) or not structural_equal(mask, self._mask):
            return node
        return replace(node, predicate=None)


class _Blender(StmtRewriter):
    def __init__(self) -> None:
        self._analyzer = Analyzer()
        self._sizes: dict[Var, int] = {}

    def visit_allocate(self, node: Allocate) -> Stmt:
        annotation = node.buffer_var.type_annotation
        size = node.extents[0]
        is_local = annotation is not None and annotation.storage_scope == "local"
        if is_local and len(node.extents) == 1 and isinstance(size, IntImm):
            self._sizes[node.buffer_var] = size.value
        result: Stmt = self.generic_visit(node)
        return result

    def visit_for(self, node: For) -> Stmt:
        self._analyzer.bind(node.loop_var, Range(node.min, node.extent), allow_override=True)
        result: Stmt = self.generic_visit(node)
        return result

    def visit_buffer_store(self, node: BufferStore) -> Stmt:
        mask = node.predicate
        if mask is None or not self._is_inside(node):
            return node
        # Lanes that the blend throws away may be loaded as well.
        value = _Unmasker(mask, self._is_inside).rewrite(node.value)
        old = BufferLoad(node.buffer, node.indices)
        return replace(node, value=Select(mask, value, old), predicate=None)

    def _is_inside(self, node: BufferStore | BufferLoad) -> bool:
        size = self._sizes.get(node.buffer.data)
        match node.indices:
            case (Ramp(base=base, stride=IntImm(value=stride), lanes=lanes),) if (
                size and stride > 0
            ):
                bound = self._analyzer.const_int_bound(base)
                return bound.min_value >= 0 and bound.max_value + stride * (lanes - 1) < size
        return False


@register_pass
@dataclass(frozen=True)
class BlendLocalStores(FunctionPass):
    """Replace masked stores into local memory by plain ones."""

    name: ClassVar[str] = "BlendLocalStores"

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        return func.with_body(_Blender().rewrite(func.body))
