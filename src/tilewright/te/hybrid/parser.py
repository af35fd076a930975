"""The statements of a hybrid script, read from its Python source."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import ir
from tilewright.te.hybrid.expressions import (
    ALLOCATE,
    BIND,
    CONST_RANGE,
    LOOP_KINDS,
    OUTPUT_TENSOR,
    ExpressionReader,
    Scalar,
    ScriptScope,
)


@dataclass(frozen=True)
class ParsedScript:
    """A script as statements on buffers."""

    body: ir.Stmt
    outputs: tuple[ir.Buffer, ...]
    returns_tuple: bool
    temporaries: tuple[ir.Buffer, ...]


@dataclass(frozen=True)
class _Loop:
    """A loop header: `for name in kind(begin, end)`."""

    kind: ir.ForKind
    begin: ir.PrimExpr
    extent: ir.PrimExpr
    step: int
    thread: ir.IterVar | None


class ScriptReader(ast.NodeVisitor):
    """Reads one script for given arguments."""

    def __init__(
        self, definition: ast.FunctionDef, arguments: Mapping[str, Any], captured: Mapping[str, Any]
    ) -> None:
        self._definition = definition
        self._scope = ScriptScope(definition.name, captured)
        for name, value in arguments.items():
            self._scope.define(name, value)
        self._expressions = ExpressionReader(self._scope)
        self._outputs: list[ir.Buffer] = []
        self._temporaries: list[ir.Buffer] = []
        self._returned: tuple[ir.Buffer, ...] | None = None
        self._returns_tuple = False
        self._assignments = _count_assignments(definition)

    def read(self) -> ParsedScript:
        """The whole script."""
        body = self._block(self._definition.body)
        if self._returned is None:
            self._scope.fail(self._definition, "the script must return its output tensors")
        for buffer in self._outputs:
            if not any(buffer is returned for returned in self._returned):
                self._scope.fail(self._definition, f"output tensor {buffer.name} must be returned")
        return ParsedScript(body, self._returned, self._returns_tuple, tuple(self._temporaries))

    def _block(self, statements: Sequence[ast.stmt]) -> ir.Stmt:
        result: list[ir.Stmt | None] = []
        for position, node in enumerate(statements):
            if isinstance(node, ast.Assert):
                result.append(self._assert_before(node, statements[position + 1 :]))
                return ir.seq(result)
            result.append(self.visit(node))
        return ir.seq(result)

    def visit(self, node: ast.AST) -> ir.Stmt | None:
        if self._returned is not None:
            self._scope.fail(node, "nothing may follow the return")
        statement: ir.Stmt | None = super().visit(node)
        return statement

    def generic_visit(self, node: ast.AST) -> None:
        self._scope.fail(node, f"{type(node).__name__} is not part of hybrid script")

    def visit_Pass(self, node: ast.Pass) -> None:
        """Nothing to do."""

    def visit_Expr(self, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self._scope.fail(node, "an expression on its own has no effect")

    def _assert_before(self, node: ast.Assert, rest: Sequence[ast.stmt]) -> ir.Stmt:
        """An assertion holds for all that follows it in its block."""
        message = node.msg.value if isinstance(node.msg, ast.Constant) else ast.unparse(node.test)
        condition = self._expressions.value(node.test)
        return ir.AssertStmt(condition, str(message), self._block(rest))

    def visit_Return(self, node: ast.Return) -> None:
        values = node.value
        if values is None:
            self._scope.fail(node, "the script must return its output tensors")
        self._returns_tuple = isinstance(values, ast.Tuple)
        items = values.elts if isinstance(values, ast.Tuple) else [values]
        found = []
        for item in items:
            value = self._expressions.visit(item)
            if not any(value is buffer for buffer in self._outputs):
                self._scope.fail(node, f"{ast.unparse(item)} is not an output_tensor")
            found.append(value)
        self._returned = tuple(found)

    # --- assignments ---

    def visit_Assign(self, node: ast.Assign) -> ir.Stmt | None:
        if len(node.targets) != 1:
            self._scope.fail(node, "assign to one target at a time")
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            if not isinstance(node.value, ast.Tuple) or len(node.value.elts) != len(target.elts):
                self._scope.fail(
                    node, "both sides of a tuple assignment need equally many elements"
                )
            if any(not isinstance(item, ast.Name) for item in target.elts):
                self._scope.fail(node, "a tuple assignment needs names on the left")
            pairs = zip(target.elts, node.value.elts, strict=True)
            return ir.seq([self._assign_one(node, left, right) for left, right in pairs])
        return self._assign_one(node, target, node.value)

    def _assign_one(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ir.Stmt | None:
        if isinstance(target, ast.Name) and isinstance(value, ast.Call):
            made = self._allocation(target.id, value)
            if made is not None:
                self._scope.define(target.id, made)
                return None
        found = self._expressions.visit(value)
        if isinstance(target, ast.Name) and self._is_constant(target.id, found):
            self._scope.define(target.id, found)
            return None
        if isinstance(found, (tuple, str, ir.Buffer)):
            self._scope.fail(value, f"expected a number, got {ast.unparse(value)}")
        return self._store(node, target, ir.convert(found))

    def _is_constant(self, name: str, value: Any) -> bool:
        """A name that is assigned once, with a value known now, needs no memory."""
        known = isinstance(value, (int, float, ir.IntImm, tuple, str))
        return known and self._assignments[name] == 1

    def _allocation(self, name: str, call: ast.Call) -> ir.Buffer | None:
        if not isinstance(call.func, ast.Name) or call.func.id not in (OUTPUT_TENSOR, ALLOCATE):
            return None
        arguments = [self._expressions.visit(item) for item in call.args]
        named = {k.arg: self._expressions.visit(k.value) for k in call.keywords}
        shape = arguments[0] if arguments else named.get("shape", ())
        dtype = arguments[1] if len(arguments) > 1 else named.get("dtype", "float32")
        extents = shape if isinstance(shape, tuple) else (shape,)
        if call.func.id == OUTPUT_TENSOR:
            if self._scope.is_local(name):
                self._scope.fail(call, f"output tensor {name} hides another {name}")
            buffer = ir.decl_buffer(extents, str(dtype), name)
            self._outputs.append(buffer)
            return buffer
        scope = arguments[2] if len(arguments) > 2 else named.get("scope", "global")
        buffer = ir.decl_buffer(extents, str(dtype), name, scope=str(scope))
        self._temporaries.append(buffer)
        return buffer

    def _store(self, node: ast.stmt, target: ast.expr, value: ir.PrimExpr) -> ir.Stmt:
        if isinstance(target, ast.Name):
            buffer = self._scalar(node, target.id, value.dtype)
            return ir.BufferStore(buffer, ir.cast(buffer.dtype, value), (ir.const(0),))
        if not isinstance(target, ast.Subscript):
            self._scope.fail(node, f"cannot assign to {ast.unparse(target)}")
        base = self._expressions.visit(target.value)
        if not isinstance(base, ir.Buffer):
            self._scope.fail(node, f"{ast.unparse(target.value)} cannot be assigned to")
        indices = self._expressions.indices(target, base)
        return ir.BufferStore(base, ir.cast(base.dtype, value), indices)

    def _scalar(self, node: ast.stmt, name: str, dtype: ir.DType) -> ir.Buffer:
        known = self._scope.find(name) if self._scope.is_local(name) else None
        if isinstance(known, Scalar):
            return known.buffer
        if known is not None:
            self._scope.fail(node, f"{name} is not a variable, it cannot be assigned to")
        buffer = ir.decl_buffer((1,), dtype, name, scope="global")
        self._temporaries.append(buffer)
        self._scope.define(name, Scalar(buffer))
        return buffer

    def visit_AugAssign(self, node: ast.AugAssign) -> ir.Stmt:
        target: Any = node.target
        if isinstance(target, ast.Name):
            known = self._scope.lookup(target)
            if not isinstance(known, Scalar):
                self._scope.fail(node, f"{target.id} is not a variable, it cannot be assigned to")
            old: ir.PrimExpr = ir.BufferLoad(known.buffer, (ir.const(0),))
        else:
            old = self._expressions.value(target)
        new = self._expressions.apply(node, node.op, old, self._expressions.visit(node.value))
        return self._store(node, target, ir.convert(new))

    # --- control flow ---

    def visit_If(self, node: ast.If) -> ir.Stmt:
        condition = self._expressions.value(node.test)
        if isinstance(condition, ir.IntImm):
            return self._block(node.body if condition.value else node.orelse)
        then_case = self._block(node.body)
        else_case = self._block(node.orelse) if node.orelse else None
        return ir.IfThenElse(condition, then_case, else_case)

    def visit_For(self, node: ast.For) -> ir.Stmt:
        if not isinstance(node.target, ast.Name):
            self._scope.fail(node, "a loop needs one name as its variable")
        call = node.iter
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            self._scope.fail(node, "a loop runs over a call such as range(...) or parallel(...)")
        if node.orelse:
            self._scope.fail(node, "a loop has no else")
        name, kind = node.target.id, call.func.id
        if kind == CONST_RANGE:
            return self._unrolled_now(node, name, call)
        loop = self._header(node, kind, call)
        var = ir.Var(name, loop.extent.dtype)
        meaning: ir.PrimExpr = var * loop.step + loop.begin if loop.step != 1 else var
        with self._scope.inner(**{name: meaning}):
            body = self._block(node.body)
        begin = ir.const(0, loop.begin.dtype) if loop.step != 1 else loop.begin
        return ir.For(var, begin, loop.extent, loop.kind, body, loop.thread)

    def _unrolled_now(self, node: ast.For, name: str, call: ast.Call) -> ir.Stmt:
        bounds = [self._expressions.integer(a, "a bound of const_range") for a in call.args]
        bodies = []
        for value in range(*bounds):
            with self._scope.inner(**{name: value}):
                bodies.append(self._block(node.body))
        return ir.seq(bodies)

    def _header(self, node: ast.For, kind: str, call: ast.Call) -> _Loop:
        if kind == BIND:
            return self._thread_header(node, call)
        loop_kind = LOOP_KINDS.get(kind)
        if loop_kind is None:
            known = ", ".join([*LOOP_KINDS, CONST_RANGE, BIND])
            self._scope.fail(node, f"unknown loop {kind!r}, expected one of {known}")
        if not 1 <= len(call.args) <= 3:
            self._scope.fail(node, f"{kind} takes one to three arguments")
        bounds = [self._expressions.value(argument) for argument in call.args]
        begin, end = (ir.const(0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = 1
        if len(bounds) == 3:
            step = self._expressions.integer(call.args[2], "the step of a loop")
            if step < 1:
                self._scope.fail(node, f"the step of a loop must be positive, got {step}")
        extent = ir.subtract(end, begin)
        if step != 1:
            extent = (extent + (step - 1)) // step
        return _Loop(loop_kind, ir.cast(extent.dtype, begin), extent, step, None)

    def _thread_header(self, node: ast.For, call: ast.Call) -> _Loop:
        if len(call.args) != 2:
            self._scope.fail(node, "bind takes a thread tag and an extent")
        tag = self._expressions.visit(call.args[0])
        if not isinstance(tag, str):
            self._scope.fail(node, "the first argument of bind is a thread tag")
        extent = self._expressions.value(call.args[1])
        zero = ir.const(0, extent.dtype)
        thread = ir.IterVar(
            ir.Range(zero, extent), ir.Var(tag, extent.dtype), ir.IterType.THREAD_INDEX, tag
        )
        return _Loop(ir.ForKind.THREAD_BINDING, zero, extent, 1, thread)


def _count_assignments(definition: ast.FunctionDef) -> Counter[str]:
    """How often each name is assigned to; inside a loop counts as often."""
    counts: Counter[str] = Counter()
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                counts.update(item.id for item in names if isinstance(item, ast.Name))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            counts[node.target.id] += 1
    return counts
