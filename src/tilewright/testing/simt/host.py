"""The host part of a lowered module: it makes tensor maps and launches kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.simt.tensor_maps import MAPS
from tilewright.testing.simt.threads import LockstepThreads, RaceError, function_name

# A kernel, the extents of its launch by tag, and its arguments.
Launch = Callable[[ir.PrimFunc, Mapping[str, int], Mapping[ir.Var, Any]], None]
ONE_THREAD = {"threadIdx.x": np.zeros(1, np.int64)}


@dataclass
class HostProgram:
    """Runs host code."""

    module: ir.IRModule
    launch: Launch
    values: dict[ir.Var, Any]

    def execute(self, stmt: ir.Stmt) -> None:
        """Run a statement."""
        match stmt:
            case ir.SeqStmt():
                for each in stmt.seq:
                    self.execute(each)
            case ir.Allocate():
                size = self._number(stmt.extents[0])
                self.values[stmt.buffer_var] = np.zeros(size, to_numpy(stmt.dtype))
                self.execute(stmt.body)
            case ir.For():
                first = self._number(stmt.min)
                for value in range(first, first + self._number(stmt.extent)):
                    self.values[stmt.loop_var] = value
                    self.execute(stmt.body)
            case ir.LetStmt():
                self.values[stmt.var] = self._value(stmt.value)
                self.execute(stmt.body)
            case ir.Evaluate(value=ir.Call(args=args)):
                self._launch(args)
            case _:
                raise RaceError(f"a host cannot run {type(stmt).__name__}")

    def _value(self, expr: ir.PrimExpr) -> Any:
        """A number or, where the program makes one, a tensor map."""
        if not isinstance(expr, ir.Call) or function_name(expr) not in MAPS:
            return self._number(expr)
        name, dtype, data, base, *numbers = expr.args
        assert isinstance(name, ir.StringImm)
        assert isinstance(dtype, ir.StringImm)
        assert isinstance(data, ir.Var)
        memory = self.values[data].reshape(-1).view(np.uint8)[self._number(base) :]
        is_rounded = dtype.value == "tfloat32"
        size = to_numpy("float32" if is_rounded else dtype.value).itemsize
        made = MAPS[name.value](memory, size, [*map(self._number, numbers)])
        made.is_rounded = is_rounded
        return made

    def _number(self, expr: ir.PrimExpr) -> int:
        numbers = {var: ir.const(value) for var, value in self.values.items() if var.dtype.is_int}
        result = ir.substitute(expr, numbers)
        return int(LockstepThreads(ONE_THREAD, 1).value(result))

    def _launch(self, args: Sequence[ir.PrimExpr]) -> None:
        name = args[0]
        assert isinstance(name, ir.StringImm)
        kernel = self.module[name.value]
        tags = kernel.attrs["tir.kernel_launch_params"]
        passed, extents = args[1 : -len(tags)], args[len(args) - len(tags) :]
        bound = {
            param: self.values[arg] if arg.dtype.is_handle else self._number(arg)  # type: ignore[index]
            for param, arg in zip(kernel.params, passed, strict=True)
        }
        sizes = dict(zip(map(str, tags), map(self._number, extents), strict=True))
        if 0 in sizes.values():
            return  # of no threads
        self.launch(kernel, sizes, bound)
