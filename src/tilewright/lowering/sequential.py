"""Passes one after another, as one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ir import IRModule
from tilewright.lowering.base import Pass, as_pass
from tilewright.lowering.context import PassContext
from tilewright.target import Target


@dataclass(frozen=True)
class Sequential:
    """Runs passes in order; `PassContext` may disable some of them, and watch all."""

    passes: Sequence[Any] = ()
    opt_level: int = 0
    name: str = "sequential"

    def __call__(self, module: IRModule, target: Target | None = None) -> IRModule:
        context = PassContext.current()
        for step in map(as_pass, self.passes):
            module = run_pass(step, module, target, context)
        return module


def run_pass(step: Pass, module: IRModule, target: Target | None, context: PassContext) -> IRModule:
    """Run one pass unless the context forbids it; instruments see the module before and after."""
    if step.name in context.disabled_pass or not context.should_run(module, step):
        return module
    if not context.instruments:
        return step(module, target)
    context.run_before_pass(module, step)
    result = step(module, target)
    context.run_after_pass(result, step)
    return result
