"""Blocks lose their iterators: each one is replaced by the expression it is bound to."""

from __future__ import annotations

from tilewright.errors import LowerError
from tilewright.ir import Block, BlockRealize, PrimFunc, Stmt, replace
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import FoldingSubstituter


class _OpaqueConverter(FoldingSubstituter):
    def visit_block_realize(self, node: BlockRealize) -> Stmt:
        block = node.block
        if len(block.iter_vars) != len(node.iter_values):
            raise LowerError(
                f"block {block.name_hint!r} has {len(block.iter_vars)} iterators but "
                f"{len(node.iter_values)} bindings"
            )
        for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.bindings[iter_var.var] = self.visit(value)
        # The predicate may be written with the iterators or with what they are bound to.
        predicate = self.visit(node.predicate)
        new_block = self.visit(block)
        if not node.iter_values and predicate is node.predicate and new_block is block:
            return node
        return BlockRealize((), predicate, new_block)

    def visit_block(self, node: Block) -> Block:
        if node.init is not None:
            raise LowerError(
                f"block {node.name_hint!r} still has an init; run LowerInitBlock first"
            )
        if node.iter_vars:
            node = replace(node, iter_vars=())
        return super().visit_block(node)


@function_pass
def ConvertBlocksToOpaque(func: PrimFunc) -> PrimFunc:
    """Substitute block iterators by their bindings."""
    return func.with_body(_OpaqueConverter({}).rewrite(func.body))
