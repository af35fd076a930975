"""The form that code generators rely on, checked."""

from __future__ import annotations

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.lowering.base import function_pass
from tilewright.lowering.host_abi import SIGNATURE_ATTR

_LOOP_KINDS = (ir.ForKind.SERIAL, ir.ForKind.PARALLEL, ir.ForKind.UNROLLED)


class _Verifier(ir.Visitor):
    def __init__(self, func: ir.PrimFunc) -> None:
        self._name = func.name
        self._defined: set[ir.Var] = set(func.params)

    def _fail(self, what: str) -> None:
        raise LowerError(f"function {self._name!r} is not in lowered form: {what}")

    def _unexpected(self, node: ir.Node) -> None:
        self._fail(f"it still contains a {type(node).__name__}")

    visit_block = visit_block_realize = visit_match_buffer_region = _unexpected
    visit_decl_buffer = visit_buffer_region = visit_reduce = _unexpected

    def visit_var(self, node: ir.Var) -> None:
        if node not in self._defined:
            self._fail(f"variable {node.name!r} is not defined where it is used")

    def visit_for(self, node: ir.For) -> None:
        if node.kind not in _LOOP_KINDS:
            self._fail(f"loop {node.loop_var.name!r} has kind {node.kind.name}")
        self._bind(node, node.loop_var)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if isinstance(node.node, ir.IterVar):  # a thread of a kernel
            self._defined.add(node.node.var)
        self.generic_visit(node)

    def visit_let(self, node: ir.Let | ir.LetStmt) -> None:
        self._bind(node, node.var)

    visit_let_stmt = visit_let

    def visit_allocate(self, node: ir.Allocate) -> None:
        if len(node.extents) != 1:
            self._fail(f"allocation {node.buffer_var.name!r} has {len(node.extents)} extents")
        self._bind(node, node.buffer_var)

    def visit_allocate_const(self, node: ir.AllocateConst) -> None:
        self._bind(node, node.buffer_var)

    def _bind(self, node: ir.Node, var: ir.Var) -> None:
        for name in node.child_fields:
            value = getattr(node, name)
            if name == "body":
                self._defined.add(var)
            for child in value if isinstance(value, tuple) else (value,):
                if child is not None:
                    self.visit(child)
        self._defined.discard(var)

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self._check_access(node.buffer, node.indices, node.predicate)
        self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self._check_access(node.buffer, node.indices, node.predicate)
        lanes = node.indices[0].dtype.lanes * node.buffer.dtype.lanes
        if node.value.dtype.lanes != lanes or node.value.dtype.element_of != node.buffer.dtype:
            self._fail(
                f"{node.value.dtype!s} is stored to {lanes} lanes of {node.buffer.name}, "
                f"which holds {node.buffer.dtype!s}"
            )
        self.generic_visit(node)

    def _check_access(
        self, buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...], predicate: ir.PrimExpr | None
    ) -> None:
        if buffer.data not in self._defined:
            self._fail(f"the memory of buffer {buffer.name} is not defined where it is used")
        if len(indices) != 1 or len(buffer.shape) != 1:
            self._fail(f"buffer {buffer.name} is not flat")
        if buffer.strides or buffer.elem_offset is not None:
            self._fail(f"buffer {buffer.name} has strides or an offset")
        if predicate is not None and predicate.dtype.lanes != indices[0].dtype.lanes:
            self._fail(f"the mask of an access of {buffer.name} has {predicate.dtype!s}")

    def visit_ramp(self, node: ir.Ramp) -> None:
        if node.base.dtype is not node.stride.dtype:
            self._fail(f"ramp `{node}` mixes {node.base.dtype!s} and {node.stride.dtype!s}")
        self.generic_visit(node)

    def visit_cast(self, node: ir.Cast) -> None:
        if node.dtype.lanes != node.value.dtype.lanes:
            self._fail(f"cast of {node.value.dtype!s} to {node.dtype!s}")
        self.generic_visit(node)

    def visit_binary_op(self, node: ir.BinaryOp) -> None:
        if node.a.dtype is not node.b.dtype:
            self._fail(f"`{node}` mixes {node.a.dtype!s} and {node.b.dtype!s}")
        self.generic_visit(node)


def verify_lowered(program: ir.PrimFunc | ir.IRModule) -> None:
    """Raise a `LowerError` unless every function is in the form that code generators consume."""
    functions = [program] if isinstance(program, ir.PrimFunc) else program.functions.values()
    for func in functions:
        is_kernel = "calling_conv" in func.attrs  # called by a function that has a signature
        if func.buffer_map or (SIGNATURE_ATTR not in func.attrs and not is_kernel):
            raise LowerError(f"function {func.name!r} is not in lowered form: no host ABI")
        _Verifier(func).visit(func.body)


@function_pass
def VerifyLowered(func: ir.PrimFunc) -> ir.PrimFunc:
    """Check that a function is in the form that code generators consume."""
    verify_lowered(func)
    return func
