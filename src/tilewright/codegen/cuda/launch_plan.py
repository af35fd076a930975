"""The host functions of a lowered module as a plan: plain data, which `loading.py` carries out.

A plan is a dictionary that JSON can hold:

    functions  name -> {"params": [[name, dtype], ...], "steps": [step, ...]}
    kernels    name -> {"symbol": name in the code, "params": [dtype, ...], "tags": [tag, ...],
                        "early": flag}

A kernel that is `early` may start before the one ahead of it has ended: it waits for that itself.

Steps are lists whose first item says what is done:

    launch    kernel, arguments, extents in the order of the kernel's tags
    allocate  variable, bytes, steps: memory of the GPU while the steps run
    let       variable, value, steps
    map       variable, kind, dtype, address, numbers, steps: a tensor map (see tensor_maps.py)
    loop      variable, first value, count, steps
    if        condition, steps, other steps
    assert    condition, number of the message that it fails with

Expressions are integers, names of variables, or lists of an operator and its operands. Numbers that
are no integers are passed on as their bits.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.codegen.cuda.tensor_maps import MAP_CALLS
from tilewright.codegen.cuda.types import cuda_identifier
from tilewright.errors import CodegenError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.gpu.start_early import WAIT
from tilewright.lowering.host_abi import is_kernel

LAUNCH_PARAMS = "tir.kernel_launch_params"
DYNAMIC_SHARED = "tir.use_dyn_shared_memory"

Plan: TypeAlias = dict[str, Any]
Steps: TypeAlias = list[list[Any]]
Expression: TypeAlias = int | str | list[Any]

_SYMBOLS: Mapping[type[ir.PrimExpr], str] = {
    ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.FloorDiv: "//", ir.FloorMod: "%",
    ir.Div: "truncdiv", ir.Mod: "truncmod", ir.Min: "min", ir.Max: "max",
    ir.EQ: "==", ir.NE: "!=", ir.LT: "<", ir.LE: "<=", ir.GT: ">", ir.GE: ">=",
}  # fmt: skip
_CALLED = {
    "tir.shift_left": "<<",
    "tir.shift_right": ">>",
    "tir.bitwise_and": "&",
    "tir.bitwise_or": "|",
    "tir.bitwise_xor": "^",
    "tir.if_then_else": "if",
}
_LAUNCHES = ("tir.call_packed", "tir.tvm_call_packed")


def _truncated(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


# What operators mean; `if` is the only one that leaves an operand aside.
OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "truncdiv": _truncated,
    "truncmod": lambda a, b: a - b * _truncated(a, b),
    "min": min,
    "max": max,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def plan_of(lowered: ir.IRModule) -> tuple[Plan, tuple[str, ...]]:
    """The plan of a lowered module, and the messages of its assertions."""
    kernels = {name: func for name, func in lowered.functions.items() if is_kernel(func)}
    messages: list[str] = []
    functions = {
        name: _FunctionPlanner(name, kernels, messages).plan(func)
        for name, func in lowered.functions.items()
        if name not in kernels
    }
    described = {name: _kernel(name, func) for name, func in kernels.items()}
    return {"functions": functions, "kernels": described}, tuple(messages)


def dynamic_shared_bytes(plan: Plan) -> dict[str, int]:
    """Shared memory that launches ask for, by the symbol of the kernel, where it is a number."""
    most: dict[str, int] = {}

    def look(step: Any) -> None:
        if isinstance(step, list) and step[:1] == ["launch"]:
            _, kernel, _, extents = step
            described = plan["kernels"][kernel]
            size = dict(zip(described["tags"], extents, strict=True)).get(DYNAMIC_SHARED, 0)
            symbol = described["symbol"]
            most[symbol] = max(most.get(symbol, 0), size if isinstance(size, int) else 0)
        elif isinstance(step, list):
            for part in step:
                look(part)

    for function in plan["functions"].values():
        look(function["steps"])
    return most


def _kernel(name: str, func: ir.PrimFunc) -> Plan:
    return {
        "symbol": cuda_identifier(str(func.attrs.get("global_symbol", name))),
        "params": list(map(_param_type, func.params)),
        "tags": [str(tag) for tag in func.attrs[LAUNCH_PARAMS]],
        "early": any(_extern_name(call) == WAIT for call in ir.nodes_of(func.body, ir.Call)),
    }


def _extern_name(expr: ir.PrimExpr) -> str:
    """The function that an expression calls by name; empty if it does not."""
    if not isinstance(expr, ir.Call) or expr.op.name != "tir.call_extern":
        return ""
    name = expr.args[0]
    return name.value if isinstance(name, ir.StringImm) else ""


def _param_type(param: ir.Var) -> str:
    kind = param.type_annotation
    is_map = kind is not None and kind.storage_scope == "tensormap"
    return "tensormap" if is_map else str(param.dtype)


class _FunctionPlanner:
    """Turns the body of one host function into steps."""

    def __init__(
        self, function: str, kernels: Mapping[str, ir.PrimFunc], messages: list[str]
    ) -> None:
        self._function = function
        self._kernels = kernels
        self._messages = messages
        self._names: dict[ir.Var, str] = {}

    def plan(self, func: ir.PrimFunc) -> Plan:
        """The whole function."""
        params = [[self._define(param), str(param.dtype)] for param in func.params]
        return {"params": params, "steps": self._steps(func.body)}

    def _define(self, var: ir.Var) -> str:
        name = f"{var.name}_{len(self._names)}" if var.name in self._names.values() else var.name
        self._names[var] = name
        return name

    @functools.singledispatchmethod
    def _steps(self, stmt: ir.Stmt) -> Steps:
        raise self._unplanned(type(stmt).__name__)

    def _unplanned(self, what: str) -> CodegenError:
        return CodegenError(
            f"function {self._function!r}: {what} outside of all kernels; bind its loops to threads"
        )

    @_steps.register
    def _(self, stmt: ir.SeqStmt) -> Steps:
        return [step for item in stmt.seq for step in self._steps(item)]

    @_steps.register
    def _(self, stmt: ir.Evaluate) -> Steps:
        call = stmt.value
        if isinstance(call, ir.IntImm):
            return []
        if not isinstance(call, ir.Call) or call.op.name not in _LAUNCHES:
            raise self._unplanned(f"`{call}`")
        name, *args = call.args
        if not isinstance(name, ir.StringImm) or name.value not in self._kernels:
            raise self._unplanned(f"a call of the packed function {name}")
        values, count = [self._value(arg) for arg in args], len(self._kernels[name.value].params)
        return [["launch", name.value, values[:count], values[count:]]]

    @_steps.register
    def _(self, stmt: ir.LetStmt) -> Steps:
        if _extern_name(stmt.value) in MAP_CALLS:
            return [self._map(stmt)]
        value = self._value(stmt.value)
        return [["let", self._define(stmt.var), value, self._steps(stmt.body)]]

    def _map(self, stmt: ir.LetStmt) -> list[Any]:
        assert isinstance(stmt.value, ir.Call)
        kind, dtype, data, offset, *numbers = stmt.value.args
        assert isinstance(kind, ir.StringImm)
        assert isinstance(dtype, ir.StringImm)
        address = ["+", self._value(data), self._value(offset)]
        given = [self._value(number) for number in numbers]
        variable = self._define(stmt.var)
        return ["map", variable, kind.value, dtype.value, address, given, self._steps(stmt.body)]

    @_steps.register
    def _(self, stmt: ir.Allocate) -> Steps:
        bits = stmt.dtype.bits * stmt.dtype.lanes
        size = functools.reduce(
            lambda product, extent: ["*", product, self._value(extent)],
            stmt.extents,
            self._value(ir.IntImm(ir.DType("int64"), -(-bits // 8))),
        )
        return [["allocate", self._define(stmt.buffer_var), size, self._steps(stmt.body)]]

    @_steps.register
    def _(self, stmt: ir.DeclBuffer) -> Steps:
        return self._steps(stmt.body)

    @_steps.register
    def _(self, stmt: ir.AttrStmt) -> Steps:
        return self._steps(stmt.body)

    @_steps.register
    def _(self, stmt: ir.AssertStmt) -> Steps:
        self._messages.append(stmt.message)
        check = ["assert", self._value(stmt.condition), len(self._messages)]
        return [check, *self._steps(stmt.body)]

    @_steps.register
    def _(self, stmt: ir.IfThenElse) -> Steps:
        other = [] if stmt.else_case is None else self._steps(stmt.else_case)
        return [["if", self._value(stmt.condition), self._steps(stmt.then_case), other]]

    @_steps.register
    def _(self, stmt: ir.For) -> Steps:
        first, count = self._value(stmt.min), self._value(stmt.extent)
        return [["loop", self._define(stmt.loop_var), first, count, self._steps(stmt.body)]]

    def _value(self, expr: ir.PrimExpr) -> Expression:
        match expr:
            case ir.IntImm(value=value):
                return value
            case ir.FloatImm(dtype=dtype, value=number):
                bits = np.asarray(number).astype(to_numpy(dtype)).tobytes()
                return int.from_bytes(bits, "little")
            case ir.Var() if expr in self._names:
                return self._names[expr]
            case ir.Cast(value=value) if not expr.dtype.is_float and not value.dtype.is_float:
                return ["cast", str(expr.dtype), self._value(value)]
            case ir.And(a=a, b=b):
                return ["if", self._value(a), self._value(b), 0]
            case ir.Or(a=a, b=b):
                return ["if", self._value(a), 1, self._value(b)]
            case ir.Not(a=a):
                return ["==", self._value(a), 0]
            case ir.Select(condition=condition, true_value=a, false_value=b):
                return ["if", self._value(condition), self._value(a), self._value(b)]
            case ir.BinaryOp(a=a, b=b) if not expr.dtype.is_float:
                return [_SYMBOLS[type(expr)], self._value(a), self._value(b)]
            case ir.Call(op=op, args=args) if op.name in _CALLED:
                return [_CALLED[op.name], *map(self._value, args)]
            case ir.Call(op=op, args=(condition,)) if op.name == "tir.likely":
                return self._value(condition)
        raise self._unplanned(f"the value `{expr}`")


def evaluator(expr: Expression) -> Callable[[Mapping[str, int]], int]:
    """An expression as a function of its variables."""
    match expr:
        case int():
            return lambda values: expr
        case str():
            return operator.itemgetter(expr)
        case ["cast", dtype, operand]:
            inner, low, size = evaluator(operand), *_range_of(dtype)
            return lambda values: (inner(values) - low) % size + low
        case ["if", condition, chosen, other]:
            holds, yes, no = map(evaluator, (condition, chosen, other))
            return lambda values: yes(values) if holds(values) else no(values)
    symbol, left, right = expr
    apply, first, second = OPERATORS[symbol], evaluator(left), evaluator(right)
    if isinstance(left, int) and isinstance(right, int):
        return evaluator(int(apply(left, right)))
    return lambda values: int(apply(first(values), second(values)))


def _range_of(dtype: str) -> tuple[int, int]:
    """The least value of an integer type, and how many there are."""
    kind = ir.DType(dtype)
    size = 1 << kind.bits
    return (-(size >> 1), size) if dtype.startswith("int") else (0, size)
