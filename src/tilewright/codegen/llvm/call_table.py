"""The table from operator to the function that emits a call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.errors import CodegenError
from tilewright.ir import Call, Op, StringImm

CallEmitter: TypeAlias = Callable[[IndexBuilder, Call], Value]


class CallTable(dict[str, CallEmitter]):
    """Functions by the full name of the operator whose calls they emit."""

    def emits(self, *names: str) -> Callable[[CallEmitter], CallEmitter]:
        """Say that a function emits the calls of some operators, `exp` standing for `tir.exp`."""

        def register(emit: CallEmitter) -> CallEmitter:
            for name in names:
                self[f"tir.{name}"] = emit
            return emit

        return register


def name_of(call: Call) -> str:
    """The operator without its prefix."""
    assert isinstance(call.op, Op)
    return call.op.name.removeprefix("tir.")


def string_of(call: Call, position: int) -> str:
    """An argument that must be a string."""
    arg = call.args[position] if position < len(call.args) else None
    if not isinstance(arg, StringImm):
        raise CodegenError(f"`{call}` must name the function as a string")
    return arg.value
