"""All loops of a kernel that are bound to the same thread become one, around the whole kernel.

A kernel is an outermost loop that is bound to a thread. Inside it many loops may name the same
thread; they run at the same time and stand for one number. After this pass the loops bound to the
grid and to the threads of a block stand around the kernel, one a tag, and nothing inside binds them
again. Virtual threads stay where they are.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import bound_tag, is_grid_tag, launched_tag
from tilewright.lowering.rewriters import FoldingSubstituter


class _Kernel(FoldingSubstituter):
    """Takes loops over threads out of a kernel, and remembers one for each tag."""

    def __init__(self) -> None:
        super().__init__({})
        self._launches: dict[str, ir.For] = {}
        self._inner: set[ir.Var] = set()
        self._analyzer = Analyzer()

    def lowered(self, kernel: ir.Stmt) -> ir.Stmt:
        """The kernel inside of a loop for each of its threads, in the order of first use."""
        body: ir.Stmt = self.visit(kernel)
        for launch in reversed(self._launches.values()):
            body = ir.replace(launch, body=body)
        return body

    def visit_for(self, node: ir.For) -> Any:
        tag = bound_tag(node)
        if not is_grid_tag(tag):
            self._inner.add(node.loop_var)
            return super().visit_for(node)
        launch = self._launch(tag, node.extent, node.annotations)
        thread = ir.cast(node.loop_var.dtype, launch.loop_var)
        self.bindings[node.loop_var] = ir.add(thread, self.visit(node.min))
        body: ir.Stmt = self.visit(node.body)
        if not node.annotations or node.annotations == launch.annotations:
            return body
        once = ir.Var("once", node.loop_var.dtype)
        zero, one = ir.const(0, once.dtype), ir.const(1, once.dtype)
        return ir.For(once, zero, one, ir.ForKind.SERIAL, body, None, node.annotations)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> Any:
        tag = launched_tag(node)
        if not is_grid_tag(tag):
            return super().visit_attr_stmt(node)
        thread = self._launch(tag, node.value, {}).loop_var
        self.bindings[node.node.var] = ir.cast(node.node.var.dtype, thread)
        return self.visit(node.body)

    def visit_let(self, node: Any) -> Any:
        self._inner.add(node.var)
        return super().visit_let(node)

    visit_let_stmt = visit_let

    def _launch(self, tag: str, extent: ir.PrimExpr, annotations: Any) -> ir.For:
        """The loop that stands for a tag; made when the tag is met first."""
        extent = self.visit(extent)
        known = self._launches.get(tag)
        if known is None:
            _check_extent(tag, extent, self._inner)
            known = self._launches[tag] = _loop(tag, extent, annotations)
        elif not self._analyzer.can_prove_equal(known.extent, extent):
            raise LowerError(
                f"a kernel binds loops of extents {known.extent} and {extent} to {tag}; "
                "split them so that both have the same extent"
            )
        return known


def _loop(tag: str, extent: ir.PrimExpr, annotations: Any) -> ir.For:
    name, zero = tag.replace(".", "_"), ir.const(0, extent.dtype)
    thread = ir.Var(name, extent.dtype)
    binding = ir.IterVar(ir.Range(zero, extent), thread, ir.IterType.THREAD_INDEX, tag)
    var = ir.Var(name, extent.dtype)
    kind = ir.ForKind.THREAD_BINDING
    return ir.For(var, zero, extent, kind, ir.no_op(), binding, annotations)


def _check_extent(tag: str, extent: ir.PrimExpr, inner: set[ir.Var]) -> None:
    varying = [var.name for var in ir.free_vars(extent) if var in inner]
    if varying or ir.has_load(extent):
        raise LowerError(
            f"the extent {extent} of a loop bound to {tag} changes while the kernel runs; "
            "bind a loop whose extent is known when the kernel starts"
        )


@function_pass
def UnifyThreadBinding(func: ir.PrimFunc) -> ir.PrimFunc:
    """Bind each thread once, around the kernel that uses it."""

    def kernel(node: ir.Stmt) -> ir.Stmt | None:
        return _Kernel().lowered(node) if bound_tag(node) or launched_tag(node) else None

    return ir.rewrite(func, before={(ir.For, ir.AttrStmt): kernel})
