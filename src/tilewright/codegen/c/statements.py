"""Statements as lines of C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright import ir
from tilewright.codegen.c import types
from tilewright.codegen.c.expressions import ExpressionPrinter
from tilewright.codegen.c.prelude import ALLOCATE, FAILURE, PARALLEL, Prelude
from tilewright.codegen.c.vectors import vector_store
from tilewright.codegen.program_facts import captured_vars, constant_bytes
from tilewright.errors import CodegenError

_MAX_STACK_BYTES = 16 * 1024  # larger allocations come from the heap


@dataclass
class Unit:
    """What all functions of one translation unit share."""

    prelude: Prelude = field(default_factory=Prelude)
    externs: dict[str, str] = field(default_factory=dict)
    outlined: list[str] = field(default_factory=list)
    messages: dict[str, None] = field(default_factory=dict)  # what a function may fail with
    outlined_count: int = 0


def variable_type(var: ir.Var) -> str:
    """The type of a parameter or captured variable: a pointer to its elements, or a scalar."""
    if not var.dtype.is_handle:
        return types.c_type(var.dtype) + (" *" if var.dtype.lanes > 1 else " ")
    annotation = var.type_annotation
    if annotation is None or annotation.element_type == "void":
        return "void *"
    return f"{types.c_type(annotation.element_type)} *"


class StatementPrinter(ExpressionPrinter):
    """Prints the body of one C function."""

    def __init__(self, unit: Unit, function_name: str, returns: str = "int32_t") -> None:
        super().__init__(unit.prelude, unit.externs)
        self.lines: list[str] = []
        self._unit = unit
        self._function_name = function_name
        self._returns = returns
        self._depth = 1
        self._heap: list[str] = []  # what must be freed before returning from here

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def _braces(self, head: str) -> Iterator[None]:
        self.line(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextmanager
    def _otherwise(self) -> Iterator[None]:
        """The second branch of the `if` that was just closed."""
        self.lines[-1] += " else {"
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def _return(self, value: str) -> None:
        for name in reversed(self._heap):
            self.line(f"free({name});")
        self.line(f"return {value};")

    def _fail(self, message: str) -> None:
        self._unit.messages[message] = None
        self.prelude.need("tw_fail", FAILURE)
        self._return(f"tw_fail({types.string_literal(message)})")

    # --- simple statements ---

    def visit_seq_stmt(self, node: ir.SeqStmt) -> None:
        for each in node.seq:
            self.visit(each)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        self.visit(node.body)

    def visit_evaluate(self, node: ir.Evaluate) -> None:
        if ir.is_no_op(node):
            return
        value = node.value
        if isinstance(value, ir.Call) and value.op is ir.Op.get("tir.ret"):
            self._return(self.text(value.args[0]))
        else:
            self.line(f"{self.text(value)};")

    def visit_assert_stmt(self, node: ir.AssertStmt) -> None:
        if self._returns != "int32_t":
            raise CodegenError(
                f"function {self._function_name!r} returns a value, so it cannot report a failed "
                "assertion in C; check before the call"
            )
        with self._braces(f"if (!({self.text(node.condition)}))"):
            self._fail(node.message)
        self.visit(node.body)

    def visit_if_then_else(self, node: ir.IfThenElse) -> None:
        with self._braces(f"if ({self.text(node.condition)})"):
            self.visit(node.then_case)
        if node.else_case is not None:
            with self._otherwise():
                self.visit(node.else_case)

    def visit_while(self, node: ir.While) -> None:
        with self._braces(f"while ({self.text(node.condition)})"):
            self.visit(node.body)

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        if node.var.dtype.lanes == 1:
            value, constant = self.text(node.value), "" if node.var.dtype.is_handle else "const "
            self.line(f"{constant}{variable_type(node.var)}{self.define(node.var)} = {value};")
        else:
            name = self.supply.fresh(types.identifier(node.var.name))
            self.names[node.var] = self._lane_array(name, node.value)
        self.visit(node.body)

    # --- loops ---

    def visit_for(self, node: ir.For) -> None:
        if node.kind == ir.ForKind.PARALLEL:
            self._parallel(node)
            return
        if node.kind == ir.ForKind.UNROLLED and isinstance(node.extent, ir.IntImm):
            self.line(f"#pragma GCC unroll {min(max(node.extent.value, 1), 64)}")
        begin, end = self.text(node.min), self._end(node)
        self._loop(node, begin, end)

    def _end(self, node: ir.For) -> str:
        return self.operand(ir.add(node.min, node.extent), 11)

    def _loop(self, node: ir.For, begin: str, end: str) -> None:
        var = self.define(node.loop_var)
        kind = self.type_name(node.loop_var.dtype)
        with self._braces(f"for ({kind} {var} = {begin}; {var} < {end}; ++{var})"):
            self.visit(node.body)

    def _parallel(self, node: ir.For) -> None:
        """The body becomes a function of its own, called on parts of the range."""
        unit, number = self._unit, self._unit.outlined_count
        unit.outlined_count += 1
        unit.prelude.need("tw_parallel_for", PARALLEL)
        name = f"{self._function_name}_parallel_{number}"
        captured = captured_vars(node)
        inner = StatementPrinter(unit, name)
        fields = [f"{variable_type(var)}{inner.define(var)};" for var in captured]
        body = _outlined_body(inner, node, name)
        struct = f"typedef struct {{ {' '.join(fields) or 'char unused;'} }} {name}_args;"
        unit.outlined.append("\n".join([struct, *body]))
        values = ", ".join(self.names[var] for var in captured) or "0"
        args, status = self.supply.fresh("captured"), self.supply.fresh("status")
        self.line(f"{name}_args {args} = {{{values}}};")
        bounds = f"{self.text(node.min)}, {self._end(node)}"
        self.line(f"const int32_t {status} = TW_PARALLEL_FOR({name}, {bounds}, &{args});")
        with self._braces(f"if ({status})"):
            self._return(status)

    # --- memory ---

    def visit_allocate(self, node: ir.Allocate) -> None:
        kind, lanes, size = types.c_type(node.dtype), node.dtype.lanes, constant_bytes(node)
        name = self.define(node.buffer_var)
        if size is not None and size <= _MAX_STACK_BYTES:
            count = max(size // node.dtype.itemsize, 1)
            self.line(f"{kind} {name}[{count}] __attribute__((aligned(64)));")
            self.visit(node.body)
            return
        factors = [self.operand(extent, 13) for extent in node.extents]
        product = " * ".join([f"(int64_t)sizeof *{name}", *factors])
        product += f" * {lanes}" if lanes > 1 else ""
        self.prelude.need("tw_allocate", ALLOCATE)
        self.line(f"{kind} *{name} = tw_allocate({product});")
        with self._braces(f"if ({name} == NULL)"):
            self._fail(f"out of memory for {name}")
        self._heap.append(name)
        self.visit(node.body)
        self._heap.pop()
        self.line(f"free({name});")

    def visit_allocate_const(self, node: ir.AllocateConst) -> None:
        name = self.define(node.buffer_var)
        values = ", ".join(self._constant(value, node.dtype) for value in node.data)
        self.line(f"static {types.c_type(node.dtype)} {name}[] = {{{values}}};")
        self.visit(node.body)

    @staticmethod
    def _constant(value: int | float, dtype: ir.DType) -> str:
        if types.is_small_float(dtype):
            raise CodegenError(f"the C backend has no constants of {dtype!s} in memory")
        if dtype.is_float:
            return types.float_literal(float(value), dtype)
        return types.integer_literal(int(value), dtype)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        lanes = node.value.dtype.lanes
        if lanes == 1:
            target = self.element(node.buffer, node.indices[0])
            self.line(f"{target} = {self.text(node.value)};")
            return
        whole = vector_store(self, node)
        if whole is not None:
            self.line(whole)
        elif not _reads_what_it_writes(node):
            self._lane_loop(lanes, self._lane_store(node, self.at_lane(node.value, "lane")))
        else:  # all lanes are read before the first one is written
            name = self._lane_array(self.supply.fresh("values"), node.value)
            self._lane_loop(lanes, self._lane_store(node, f"{name}[lane]"))

    def _lane_store(self, node: ir.BufferStore, value: str) -> str:
        outer, self._lane = self._lane, "lane"
        target = self.element(node.buffer, node.indices[0])
        guard = "" if node.predicate is None else f"if ({self.text(node.predicate)}) "
        self._lane = outer
        return f"{guard}{target} = {value};"

    def _lane_array(self, name: str, value: ir.PrimExpr) -> str:
        """The lanes of a vector in an array of that name."""
        self.line(f"{types.c_type(value.dtype)} {name}[{value.dtype.lanes}];")
        self._lane_loop(value.dtype.lanes, f"{name}[lane] = {self.at_lane(value, 'lane')};")
        return name

    def _lane_loop(self, lanes: int, statement: str) -> None:
        self.line(f"for (int lane = 0; lane < {lanes}; ++lane) {statement}")


def _outlined_body(inner: StatementPrinter, node: ir.For, name: str) -> list[str]:
    """The function that runs a part of a parallel loop."""
    head = f"static int32_t {name}(int64_t begin, int64_t end, void *args) {{"
    struct = f"{name}_args"
    unpack = []
    for var, spelled in inner.names.items():
        unpack.append(f"  {variable_type(var)}{spelled} = (({struct} *)args)->{spelled};")
    kind = types.c_type(node.loop_var.dtype)
    begin, end = (bound if kind == "int64_t" else f"({kind}){bound}" for bound in ("begin", "end"))
    inner._loop(node, begin, end)
    unused = [] if inner.names and unpack else ["  (void)args;"]
    return [head, *unused, *unpack, *inner.lines, "  return 0;", "}", ""]


def _reads_what_it_writes(node: ir.BufferStore) -> bool:
    """True if the value loads from the memory of the store at other places than it writes."""
    return any(
        load.buffer.data is node.buffer.data and not ir.expr_deep_equal(load.indices, node.indices)
        for load in ir.nodes_of(node.value, ir.BufferLoad)
    )
