"""Statements to LLVM code."""

from __future__ import annotations

from tilewright.codegen.llvm import memory
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.expr import ExprGenerator
from tilewright.codegen.llvm.types import float_constant, memory_type, value_type
from tilewright.errors import CodegenError
from tilewright.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Call,
    DeclBuffer,
    DType,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    LetStmt,
    Op,
    PrimExpr,
    SeqStmt,
    Stmt,
    Var,
    While,
)

# Memory up to this size lives on the stack, where LLVM may turn it into registers.
STACK_LIMIT_BYTES = 32 * 1024
# A loop that is marked for unrolling is repeated while it is written, up to this many statements.
UNROLL_LIMIT = 4096


class StmtGenerator(ExprGenerator):
    """Emits statements into a function."""

    def run(self, statement: Stmt) -> None:
        """Emit a statement."""
        self.visit(statement)

    def visit_seq_stmt(self, node: SeqStmt) -> None:
        for statement in node.seq:
            self.visit(statement)

    def visit_evaluate(self, node: Evaluate) -> None:
        if isinstance(node.value, Call):
            if isinstance(node.value.op, Op) and node.value.op.name == "tir.ret":
                self._return(node.value.args[0])
            else:
                self.value(node.value)

    def _return(self, result: PrimExpr) -> None:
        if not isinstance(result, IntImm):
            raise CodegenError(f"a kernel returns a status, a constant integer, not `{result}`")
        self.fail(Value("i32", str(result.value)))
        self.emitter.start_block(self.emitter.fresh("dead"))

    def visit_buffer_store(self, node: BufferStore) -> None:
        memory.store(self, node)

    def visit_let_stmt(self, node: LetStmt) -> None:
        self.env[node.var] = self.value(node.value)
        self.visit(node.body)

    def visit_attr_stmt(self, node: AttrStmt) -> None:
        self.visit(node.body)

    def visit_decl_buffer(self, node: DeclBuffer) -> None:
        self.visit(node.body)

    def visit_assert_stmt(self, node: AssertStmt) -> None:
        code = self.context.assertion(node.message)
        failed = self.int_op("xor", self.value(node.condition), Value("i1", "true"))
        self._leave_if(failed, Value("i32", str(code)))
        self.visit(node.body)

    def fail_unless_zero(self, code: Value) -> None:
        """Leave the function with `code` if it is not zero."""
        failed = self.emitter.pure("i1", f"icmp ne {code}, 0", (code,))
        self._leave_if(failed, code)

    def _leave_if(self, failed: Value, code: Value) -> None:
        leave, go_on = self.emitter.fresh("leave"), self.emitter.fresh("continue")
        self.emitter.line(f"br {failed}, label %{leave}, label %{go_on}")
        self.emitter.start_block(leave)
        self.fail(code)
        self.emitter.start_block(go_on)

    def fail(self, code: Value) -> None:
        """Free what is allocated and return `code`."""
        for pointer in reversed(self.heap):
            self.emitter.line(f"call void @tw_workspace_free({pointer})")
        self.emitter.line(f"ret i32 {code.text}")

    # --- control flow ---------------------------------------------------------------------------

    def visit_if_then_else(self, node: IfThenElse) -> None:
        condition = self.value(node.condition)
        if node.else_case is None:
            self.when(condition, lambda: self.run(node.then_case))
            return
        emitter = self.emitter
        then_label, else_label, join = (emitter.fresh(stem) for stem in ("then", "else", "join"))
        regions = []
        for label, case in ((then_label, node.then_case), (else_label, node.else_case)):
            emitter.open_region(label)
            self.run(case)
            regions.append(emitter.close_region())
        emitter.line(f"br {condition}, label %{then_label}, label %{else_label}")
        for label, region in zip((then_label, else_label), regions, strict=True):
            emitter.place(region, label)
            emitter.line(f"br label %{join}")
        emitter.start_block(join)

    def visit_while(self, node: While) -> None:
        emitter = self.emitter
        head, done = emitter.fresh("while"), emitter.fresh("done")
        emitter.open_region(head)
        condition = self.value(node.condition)
        self.when(condition, lambda: self.run(node.body))
        region = emitter.close_region()
        emitter.line(f"br label %{head}")
        emitter.place(region, head)
        emitter.line(f"br {condition}, label %{head}, label %{done}")
        emitter.start_block(done)

    def visit_for(self, node: For) -> None:
        if node.kind is ForKind.PARALLEL:
            self.parallel_loop(node)
        elif node.kind is ForKind.UNROLLED and self._can_repeat(node):
            self._repeat(node)
        elif node.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            first, last = self.index(node.min), self.index(node.min + node.extent)
            self.serial_loop(node, first, last)
        else:
            raise CodegenError(
                f"loop {node.loop_var.name} is {node.kind.name.lower()}: the LLVM backend takes "
                "serial, parallel and unrolled loops"
            )

    def _can_repeat(self, node: For) -> bool:
        if not (isinstance(node.extent, IntImm) and isinstance(node.min, IntImm)):
            return False
        return node.extent.value * statement_count(node.body) <= UNROLL_LIMIT

    def _repeat(self, node: For) -> None:
        assert isinstance(node.min, IntImm)
        assert isinstance(node.extent, IntImm)
        for step in range(node.min.value, node.min.value + node.extent.value):
            self.env[node.loop_var] = Value("i64", str(step))
            self.visit(node.body)

    def serial_loop(self, node: For, first: Value, end: Value) -> None:
        """A loop that tests at its end, behind a guard unless it surely runs."""
        emitter = self.emitter
        body, done = emitter.fresh("loop"), emitter.fresh("done")
        emitter.open_region(body)
        variable = Value("i64", f"%{emitter.fresh('i')}", emitter.depth)
        self.env[node.loop_var] = variable
        self.visit(node.body)
        following = emitter.here("i64", f"add nuw nsw {variable}, 1")
        again = emitter.here("i1", f"icmp slt {following}, {end.text}")
        region = emitter.close_region()
        self._enter_loop(node, first, end, body, done)
        entry = emitter.current.label
        incoming = f"[ {first.text}, %{entry} ], [ {following.text}, %{region.label} ]"
        region.lines.insert(0, f"  {variable.text} = phi i64 {incoming}")
        emitter.place(region, body)
        emitter.line(f"br {again}, label %{body}, label %{done}{self._loop_metadata(node)}")
        emitter.start_block(done)

    def _enter_loop(self, node: For, first: Value, end: Value, body: str, done: str) -> None:
        if isinstance(node.extent, IntImm) and node.extent.value > 0:
            self.emitter.line(f"br label %{body}")
            return
        runs = self.emitter.pure("i1", f"icmp slt {first}, {end.text}", (first, end))
        self.emitter.line(f"br {runs}, label %{body}, label %{done}")

    def _loop_metadata(self, node: For) -> str:
        kind = "enable" if node.kind is ForKind.UNROLLED else "disable"
        return f", !llvm.loop {self.context.loop_metadata(kind)}"

    def parallel_loop(self, node: For) -> None:
        """Overridden by the function generator, which can start another function."""
        raise NotImplementedError

    # --- memory ---------------------------------------------------------------------------------

    def visit_allocate(self, node: Allocate) -> None:
        size = constant_bytes(node)
        self.alignments[node.buffer_var] = memory.ALLOCATION_ALIGNMENT
        if size is not None and size <= STACK_LIMIT_BYTES:
            self._allocate_on_stack(node, size)
        else:
            self._allocate_on_heap(node)

    def _allocate_on_stack(self, node: Allocate, size: int) -> None:
        element = memory_type(node.dtype.element_of)
        count = max(1, size // node.dtype.itemsize)
        alignment = memory.ALLOCATION_ALIGNMENT
        self.env[node.buffer_var] = self.emitter.alloca(
            f"alloca [{count} x {element}], align {alignment}"
        )
        self.visit(node.body)

    def _allocate_on_heap(self, node: Allocate) -> None:
        self.context.declare("noalias ptr", "tw_workspace_alloc", "i64")
        self.context.declare("void", "tw_workspace_free", "ptr")
        count = Value("i64", str(node.dtype.itemsize * node.dtype.lanes))
        for extent in node.extents:
            count = self.int_op("mul nsw", self.index(extent), count)
        pointer = self.emitter.here("ptr", f"call noalias ptr @tw_workspace_alloc({count})")
        missing = self.emitter.pure("i1", f"icmp eq {pointer}, null", (pointer,))
        code = self.context.assertion(f"out of memory for buffer {node.buffer_var.name}")
        self._leave_if(missing, Value("i32", str(code)))
        self.env[node.buffer_var] = pointer
        self.heap.append(pointer)
        self.visit(node.body)
        self.heap.pop()
        self.emitter.line(f"call void @tw_workspace_free({pointer})")

    def visit_allocate_const(self, node: AllocateConst) -> None:
        element = node.dtype.element_of
        stored = memory_type(element)
        values = ", ".join(f"{stored} {self._constant_text(v, element)}" for v in node.data)
        type_ = f"[{len(node.data)} x {stored}]"
        symbol = self.context.constant_data(type_, f"[{values}]", memory.ALLOCATION_ALIGNMENT)
        self.env[node.buffer_var] = Value("ptr", symbol)
        self.alignments[node.buffer_var] = memory.ALLOCATION_ALIGNMENT
        self.visit(node.body)

    def _constant_text(self, number: int | float, dtype: DType) -> str:
        from_float = dtype.is_float and dtype.bits > 8
        return float_constant(float(number), dtype) if from_float else str(int(number))


def constant_bytes(node: Allocate) -> int | None:
    """The size of an allocation, if it is known."""
    size = node.dtype.itemsize * node.dtype.lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def statement_count(statement: Stmt) -> int:
    """How many stores and calls a statement performs when its unrolled loops are written out."""
    match statement:
        case SeqStmt():
            return sum(map(statement_count, statement.seq))
        case For(kind=ForKind.UNROLLED, extent=IntImm(value=extent)):
            return extent * statement_count(statement.body)
        case IfThenElse():
            other = statement.else_case
            return statement_count(statement.then_case) + (statement_count(other) if other else 0)
        case For() | While() | LetStmt() | AttrStmt() | AssertStmt() | Allocate() | DeclBuffer():
            return statement_count(statement.body)
    return 1


def parameter_type(var: Var) -> str:
    """The type of a function parameter."""
    return "ptr" if var.dtype.is_handle else value_type(var.dtype)
