"""Passes under the names users of TVM know: `transform.Sequential`, `transform.PassContext`, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.ir import IRModule
from tilewright.lowering import (
    Pass as Pass,
    PassContext as PassContext,
    Sequential as Sequential,
    get_pass as get_pass,
    list_passes as list_passes,
    prim_func_pass as prim_func_pass,
)
from tilewright.lowering.base import UserPass
from tilewright.lowering.context import PassInstrument as PassInstrument
from tilewright.lowering.instruments import (
    PassTimingInstrument as PassTimingInstrument,
    PrintAfterAll as PrintAfterAll,
    PrintBeforeAll as PrintBeforeAll,
)

InstrumentT = TypeVar("InstrumentT", bound=type)


def module_pass(
    *, opt_level: int = 0, name: str = ""
) -> Callable[[Callable[[IRModule, Any], IRModule]], UserPass]:
    """Make a pass of a function `(mod, ctx) -> mod`, as a decorator."""
    del opt_level  # passes that somebody calls, or adds, always run

    def wrap(transform: Callable[[IRModule, Any], IRModule]) -> UserPass:
        return UserPass(
            name or transform.__name__, lambda mod: transform(mod, PassContext.current())
        )

    return wrap


def pass_instrument(cls: InstrumentT) -> InstrumentT:
    """Decorator of classes that watch passes; any class with such methods will do."""
    return cls


def PrintIR(header: str = "", show_meta_data: bool = False) -> UserPass:
    """A pass that prints the module and leaves it as it is."""
    del show_meta_data  # nothing is ever left out

    def show(mod: IRModule) -> IRModule:
        print(f"{header}\n{mod}" if header else str(mod))
        return mod

    return UserPass("PrintIR", show)
