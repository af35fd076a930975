"""The statements of a kernel as lines of CUDA C++."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.codegen.c.expressions import Printed
from tilewright.codegen.c.statements import Unit
from tilewright.codegen.c.types import is_small_float
from tilewright.codegen.cuda.calls import CALLS
from tilewright.codegen.cuda.prelude import CudaPrelude
from tilewright.codegen.cuda.register_indices import register_indices
from tilewright.codegen.cuda.vectors import VectorPrinter
from tilewright.codegen.cuda.wmma import Fragments
from tilewright.codegen.program_facts import constant_bytes
from tilewright.errors import CodegenError
from tilewright.ir.numpy_bridge import to_numpy

_RET = ir.Op.get("tir.ret")
_ALIGNED = "__align__(16)"
_MOST_UNROLLED = 64  # a thread has 255 registers at most


class KernelPrinter(VectorPrinter):
    """Prints the body of one kernel."""

    def __init__(self, func: ir.PrimFunc, name: str, prelude: CudaPrelude) -> None:
        super().__init__(Unit(prelude), name)
        self.prelude = prelude
        self.analyzer = Analyzer()
        self.fragments = Fragments(func.body)
        self._accessed_as_words = _accessed_as_words(func.body)
        self._register_indices = register_indices(func.body)

    @contextmanager
    def _braces(self, head: str) -> Iterator[None]:
        with self.supply.block(), super()._braces(head):
            yield

    @contextmanager
    def _otherwise(self) -> Iterator[None]:
        with self.supply.block(), super()._otherwise():
            yield

    # --- threads ---

    def declare_threads(self, extents: dict[ir.IterVar, ir.PrimExpr]) -> None:
        """Indices of the thread and its block as variables: signed, unlike those of CUDA."""
        for axis, extent in extents.items():
            var = axis.var
            domain = ir.Range(ir.const(0, extent.dtype), extent)
            self.analyzer.bind(var, domain, allow_override=True)
            kind = self.type_name(var.dtype)
            self.line(f"const {kind} {self.define(var)} = {axis.thread_tag};")

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if node.attr_key == "virtual_thread":
            raise CodegenError(
                f"virtual threads are left in kernel {self._function_name!r}; "
                "InjectVirtualThread turns them into loops"
            )
        self.visit(node.body)

    # --- calls and simple statements ---

    def visit_call(self, node: ir.Call) -> Printed:
        spell = CALLS.get(getattr(node.op, "name", ""))
        return super().visit_call(node) if spell is None else spell(self, node)

    def visit_evaluate(self, node: ir.Evaluate) -> None:
        if isinstance(node.value, ir.Call) and node.value.op is _RET:
            self.line("return;")
        else:
            super().visit_evaluate(node)

    def visit_assert_stmt(self, node: ir.AssertStmt) -> None:
        """The host reports what fails before a launch; a kernel can only stop."""
        self.line(f"if (!({self.text(node.condition)})) __trap();  // {node.message}")
        self.visit(node.body)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        var, value = node.var, node.value
        if var.dtype.lanes > 1:
            self.names[var] = self.vector_variable(value, var.name)
        elif var.dtype.is_handle:
            self._let_pointer(var, value)
        else:
            if var.dtype.is_integral:
                self.analyzer.bind(var, value, allow_override=True)
            text = self.text(value)
            self.line(f"const {self.type_name(var.dtype)} {self.define(var)} = {text};")
        self.visit(node.body)

    def _let_pointer(self, var: ir.Var, value: ir.PrimExpr) -> None:
        annotation = var.type_annotation
        kind = "void*" if annotation is None else self.pointer_type(annotation.element_type)
        text = self.text(value)
        self.line(f"{kind} {self.define(var)} = ({kind}){text};")

    def visit_for(self, node: ir.For) -> None:
        if node.kind not in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
            raise CodegenError(
                f"loop {node.loop_var.name!r} of kernel {self._function_name!r} is "
                f"{node.kind.name.lower()}; kernels have serial and unrolled loops"
            )
        if node.kind == ir.ForKind.UNROLLED or self._walks_registers(node):
            self.line("#pragma unroll")
        domain = ir.Range(node.min, node.extent)
        self.analyzer.bind(node.loop_var, domain, allow_override=True)
        begin, end = self.text(node.min), self._end(node)
        with self.supply.block():
            self._loop(node, begin, end)

    def _walks_registers(self, node: ir.For) -> bool:
        """True for a short loop over an array that is to stay in registers."""
        short = isinstance(node.extent, ir.IntImm) and node.extent.value <= _MOST_UNROLLED
        return short and node.loop_var in self._register_indices

    # --- memory ---

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> None:
        self.visit(node.body)

    def visit_allocate(self, node: ir.Allocate) -> None:
        annotation = node.buffer_var.type_annotation
        scope = "local" if annotation is None else annotation.storage_scope
        if scope == "shared.dyn":
            self._dynamic_shared(node.buffer_var)
        elif scope.startswith("wmma."):
            self.line(self.fragments.declaration(self, node))
        else:
            self._array(node, scope)
        self.visit(node.body)

    def _dynamic_shared(self, var: ir.Var) -> None:
        assert var.type_annotation is not None
        kind = self.type_name(var.type_annotation.element_type)
        name = self.define(var)
        self.line(f"extern __shared__ __align__(1024) {kind} {name}[];")

    def _array(self, node: ir.Allocate, scope: str) -> None:
        var = node.buffer_var
        qualifiers = {"shared": f"__shared__ {_ALIGNED} ", "local": ""}.get(scope)
        size = constant_bytes(node)
        if qualifiers is None or size is None:
            what = f"scope {scope!r}" if qualifiers is None else "a size that is not a constant"
            raise CodegenError(
                f"{var.name!r} has {what}; a kernel allocates memory of constant size in scopes "
                "'local', 'shared', 'shared.dyn' and 'wmma.*'"
            )
        if scope == "local" and var in self._accessed_as_words:
            qualifiers = f"{_ALIGNED} "
        count = max(size // node.dtype.itemsize, 1)
        self.line(f"{qualifiers}{self.type_name(node.dtype)} {self.define(var)}[{count}];")

    def visit_allocate_const(self, node: ir.AllocateConst) -> None:
        name, dtype = self.define(node.buffer_var), node.dtype
        if is_small_float(dtype):
            self._table_of_bits(name, node)
        else:
            values = [self._constant(value, dtype) for value in node.data]
            self._table(f"{self.type_name(dtype)} {name}", values)
        self.visit(node.body)

    def _table_of_bits(self, name: str, node: ir.AllocateConst) -> None:
        """Structures with constructors cannot be constants, so the bits are."""
        dtype, bits = node.dtype, self.fresh_name(f"{name}_bits")
        words = np.array(node.data).astype(to_numpy(dtype)).view(f"uint{dtype.bits}")
        word, pointer = self.type_name(ir.DType(f"uint{dtype.bits}")), self.pointer_type(dtype)
        self._table(f"{word} {bits}", [str(word) for word in words])
        self.line(f"const {pointer} {name} = (const {pointer}){bits};")

    def _table(self, declared: str, values: list[str]) -> None:
        self.line(f"static {_ALIGNED} const {declared}[] = {{{', '.join(values)}}};")


def _accessed_as_words(body: ir.Stmt) -> set[ir.Var]:
    """Memory of which several elements are read or written at once, by vectors or instructions."""
    found: set[ir.Var] = set()
    for node in ir.walk(body):
        if isinstance(node, ir.BufferLoad | ir.BufferStore):
            if any(index.dtype.lanes > 1 for index in node.indices):
                found.add(node.buffer.data)
        elif isinstance(node, ir.Call):
            found.update(arg for arg in node.args if isinstance(arg, ir.Var))
    return found
