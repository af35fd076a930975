"""Statements to LLVM code."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir
from tilewright.codegen.llvm import memory, streaming, tile_state
from tilewright.codegen.llvm.context import ModuleContext
from tilewright.codegen.llvm.emitter import FunctionEmitter, Value
from tilewright.codegen.llvm.expr import ExprGenerator
from tilewright.codegen.llvm.forwarding import is_private
from tilewright.codegen.llvm.types import float_constant, memory_type, value_type
from tilewright.codegen.llvm.values import zero_of
from tilewright.codegen.program_facts import constant_bytes
from tilewright.errors import CodegenError
from tilewright.ir.annotation_keys import STREAM_STORES
from tilewright.lowering.tile_registers import MAY_USE_TILES, needs_tiles

# Memory up to this size lives on the stack, where LLVM may turn it into registers.
STACK_LIMIT_BYTES = 32 * 1024
# What all of them in one function may take together: threads have small stacks.
STACK_BUDGET_BYTES = 256 * 1024
# A loop that is marked for unrolling is repeated while it is written, up to this many statements;
# a longer one is left to LLVM, which is quicker at it than we are and schedules the result better.
UNROLL_LIMIT = 32
_RET = ir.Op.get("tir.ret")
# Statements that are as long as their bodies.
_AROUND = (ir.For, ir.While, ir.LetStmt, ir.AttrStmt, ir.AssertStmt, ir.Allocate, ir.DeclBuffer)


class StmtGenerator(ExprGenerator):
    """Emits statements into a function."""

    def __init__(self, context: ModuleContext, emitter: FunctionEmitter) -> None:
        super().__init__(context, emitter)
        self.stack_bytes = 0
        self.distinct: set[ir.Var] = set()  # pointers to memory that no other one of them reaches

    def visit_seq_stmt(self, node: ir.SeqStmt) -> None:
        for statement in node.seq:
            self.visit(statement)

    def visit_evaluate(self, node: ir.Evaluate) -> None:
        value = node.value
        if isinstance(value, ir.Call) and value.op is _RET:
            self._return(value.args[0])
        elif value.child_fields:
            self.value(value)

    def _return(self, result: ir.PrimExpr) -> None:
        if not isinstance(result, ir.IntImm) or result.value != 0:
            raise CodegenError(
                f"`T.ret({result})`: a kernel has no result but its buffers; it can only return 0"
            )
        if self.in_parallel:
            raise CodegenError("`T.ret` inside a parallel loop cannot leave the function")
        self.leave(Value("i32", "0"))
        self.emitter.start_block(self.emitter.fresh("dead"))

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        memory.store(self, node)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        outer = self.env.get(node.var)
        self.bind(node.var, node.value)
        self.visit(node.body)
        self.leave_scope(node.var, outer)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if node.attr_key == STREAM_STORES:
            self._stream(node.body)
        elif node.attr_key == MAY_USE_TILES and needs_tiles(node.body, outside_parallel=True):
            self.holding_tiles(lambda: self.visit(node.body))
        else:
            self.visit(node.body)

    def _stream(self, body: ir.Stmt) -> None:
        pointers = streaming.streamed_pointers(self, body)
        if not pointers:
            self.visit(body)
            return
        self.either(
            streaming.are_aligned(self, pointers),
            lambda: streaming.streaming(self, pointers, lambda: self.visit(body)),
            lambda: self.visit(body),
        )

    def holding_tiles(self, emit: Callable[[], None]) -> None:
        """Emit code that finds the tile registers ready for use."""
        tile_state.configure(self)
        self.holds_tiles = True
        emit()
        self.holds_tiles = False
        tile_state.release(self)

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> None:
        self.visit(node.body)

    def visit_assert_stmt(self, node: ir.AssertStmt) -> None:
        failed = self.int_op("xor", self.condition(node.condition), Value("i1", "true"))
        self.fail_if(failed, node.message)
        self.visit(node.body)

    def fail_if(self, failed: Value, message: str) -> None:
        """Leave the function with an error if the bool `failed` holds."""
        self._leave_if(failed, Value("i32", str(self.context.assertion(message))))

    def fail_unless_zero(self, code: Value) -> None:
        """Leave the function with `code` if it is not zero."""
        self._leave_if(self.compare("icmp ne", code, Value("i32", "0")), code)

    def _leave_if(self, failed: Value, code: Value) -> None:
        leave, go_on = self.emitter.fresh("leave"), self.emitter.fresh("continue")
        self.emitter.line(f"br {failed}, label %{leave}, label %{go_on}")
        self.emitter.start_block(leave)
        self.leave(code)
        self.emitter.start_block(go_on)

    def leave(self, code: Value) -> None:
        """Free what is allocated and return `code`."""
        if self.holds_tiles:
            tile_state.release(self)
        for pointer in reversed(self.heap):
            self.emitter.line(f"call void @tw_workspace_free({pointer})")
        self.emitter.line(f"ret i32 {code.text}")

    # --- control flow ---------------------------------------------------------------------------

    def visit_if_then_else(self, node: ir.IfThenElse) -> None:
        condition = self.condition(node.condition)
        if node.else_case is None:
            self.when(condition, lambda: self.visit(node.then_case))
            return
        cases = node.then_case, node.else_case
        self.either(condition, lambda: self.visit(cases[0]), lambda: self.visit(cases[1]))

    def visit_while(self, node: ir.While) -> None:
        emitter = self.emitter
        head, done = emitter.fresh("while"), emitter.fresh("done")
        emitter.open_region(head)
        condition = self.condition(node.condition)
        self.when(condition, lambda: self.visit(node.body))
        region = emitter.close_region()
        emitter.line(f"br label %{head}")
        emitter.place(region, head)
        emitter.line(f"br {condition}, label %{head}, label %{done}")
        emitter.start_block(done)

    def visit_for(self, node: ir.For) -> None:
        if node.kind is ir.ForKind.PARALLEL:
            self.parallel_loop(node)
        elif (
            node.kind is ir.ForKind.UNROLLED
            and isinstance(node.extent, ir.IntImm)
            and isinstance(node.min, ir.IntImm)
            and node.extent.value * statement_count(node.body) <= UNROLL_LIMIT
        ):
            for step in range(node.extent.value):
                self._bind_loop(node, Value("i64", str(node.min.value + step)))
                self.visit(node.body)
            self.env.pop(node.loop_var, None)
        elif node.kind in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
            first, last = self.index(node.min), self.index(node.min + node.extent)
            self.serial_loop(node, first, last)
        else:
            raise CodegenError(
                f"loop {node.loop_var.name} is {node.kind.name.lower()}: the LLVM backend takes "
                "serial, parallel and unrolled loops"
            )

    def _bind_loop(self, node: ir.For, value: Value) -> None:
        self.env[node.loop_var] = value
        if self.is_natural(node.min):
            self.nonnegative.add(node.loop_var)
        else:
            self.nonnegative.discard(node.loop_var)

    def serial_loop(self, node: ir.For, first: Value, end: Value) -> None:
        """A loop that tests at its end, behind a guard unless it surely runs."""
        emitter = self.emitter
        body, done = emitter.fresh("loop"), emitter.fresh("done")
        emitter.open_region(body)
        variable = Value("i64", f"%{emitter.fresh('i')}", emitter.depth)
        self._bind_loop(node, variable)
        self.visit(node.body)
        self.env.pop(node.loop_var, None)
        following = emitter.here("i64", f"add nsw {variable}, 1")
        again = emitter.here("i1", f"icmp slt {following}, {end.text}")
        region = emitter.close_region()
        self._enter_loop(node, first, end, body, done)
        entry = emitter.current.label
        incoming = f"[ {first.text}, %{entry} ], [ {following.text}, %{region.label} ]"
        region.lines.insert(0, f"  {variable.text} = phi i64 {incoming}")
        emitter.place(region, body)
        emitter.line(f"br {again}, label %{body}, label %{done}{self._loop_metadata(node)}")
        emitter.start_block(done)

    def _enter_loop(self, node: ir.For, first: Value, end: Value, body: str, done: str) -> None:
        if isinstance(node.extent, ir.IntImm) and node.extent.value > 0:
            self.emitter.line(f"br label %{body}")
            return
        runs = self.compare("icmp slt", first, end)
        self.emitter.line(f"br {runs}, label %{body}, label %{done}")

    def _loop_metadata(self, node: ir.For) -> str:
        kind = "disable"
        if node.kind is ir.ForKind.UNROLLED:
            # A loop that only a pragma wants unrolled may stay a loop where that is better.
            kind = "enable" if "unroll_explicit" in node.annotations else "full"
        return f", !llvm.loop {self.context.loop_metadata(kind)}"

    def parallel_loop(self, node: ir.For) -> None:
        """Overridden by the function generator, which can start another function."""
        raise NotImplementedError

    # --- memory ---------------------------------------------------------------------------------

    def visit_allocate(self, node: ir.Allocate) -> None:
        size = constant_bytes(node)
        self.alignments[node.buffer_var] = memory.ALLOCATION_ALIGNMENT
        self.distinct.add(node.buffer_var)
        fits = size is not None and self.stack_bytes + size <= STACK_BUDGET_BYTES
        if size is not None and size <= STACK_LIMIT_BYTES and fits:
            self.stack_bytes += size
            self._allocate_on_stack(node, size)
        else:
            self._allocate_on_heap(node)

    def _allocate_on_stack(self, node: ir.Allocate, size: int) -> None:
        kind = f"[{max(1, size // node.dtype.itemsize)} x {memory_type(node.dtype.element_of)}]"
        place = self.emitter.alloca(f"alloca {kind}, align {memory.ALLOCATION_ALIGNMENT}")
        self.env[node.buffer_var] = place
        if is_private(node.body, node.buffer_var):
            self.private.add(node.buffer_var)
        self.visit(node.body)
        self.env.pop(node.buffer_var)

    def _allocate_on_heap(self, node: ir.Allocate) -> None:
        self.context.declare("noalias ptr", "tw_workspace_alloc", "i64")
        self.context.declare("void", "tw_workspace_free", "ptr")
        count = Value("i64", str(node.dtype.nbytes))
        for extent in node.extents:
            count = self.int_op("mul nsw", self.index(extent), count)
        pointer = self.emitter.here("ptr", f"call noalias ptr @tw_workspace_alloc({count})")
        missing = self.compare("icmp eq", pointer, zero_of("ptr"))
        self.fail_if(missing, f"out of memory for buffer {node.buffer_var.name}")
        self.env[node.buffer_var] = pointer
        self.heap.append(pointer)
        self.visit(node.body)
        self.env.pop(node.buffer_var)
        self.heap.pop()
        self.emitter.line(f"call void @tw_workspace_free({pointer})")

    def visit_allocate_const(self, node: ir.AllocateConst) -> None:
        element = node.dtype.element_of
        stored = memory_type(element)
        numbers = (
            float_constant(float(number), element) if element.is_float else str(int(number))
            for number in node.data
        )
        values = ", ".join(f"{stored} {number}" for number in numbers)
        type_ = f"[{len(node.data)} x {stored}]"
        symbol = self.context.constant_data(type_, f"[{values}]", memory.ALLOCATION_ALIGNMENT)
        self.env[node.buffer_var] = Value("ptr", symbol)
        self.alignments[node.buffer_var] = memory.ALLOCATION_ALIGNMENT
        self.distinct.add(node.buffer_var)
        self.read_only.add(node.buffer_var)
        self.visit(node.body)
        self.env.pop(node.buffer_var)


def statement_count(statement: ir.Stmt) -> int:
    """How many stores and calls a statement performs when its unrolled loops are written out."""
    match statement:
        case ir.SeqStmt():
            return sum(map(statement_count, statement.seq))
        case ir.For(kind=ir.ForKind.UNROLLED, extent=ir.IntImm(value=extent)):
            return extent * statement_count(statement.body)
        case ir.IfThenElse():
            other = statement.else_case
            return statement_count(statement.then_case) + (statement_count(other) if other else 0)
    return statement_count(statement.body) if isinstance(statement, _AROUND) else 1


def parameter_type(var: ir.Var) -> str:
    """The type of a function parameter."""
    return "ptr" if var.dtype.is_handle else value_type(var.dtype)
