"""`PassContext`: options of the pipeline, the user's own passes, and instruments.

with PassContext(config={"tir.disable_vectorize": True}):
    lower(mod)
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilewright.errors import LowerError
from tilewright.ir import IRModule
from tilewright.lowering.base import FunctionPass, Pass, as_pass, get_pass
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

PHASES = range(4)

# Every key that `config` may hold, with its default.
DEFAULTS: Mapping[str, object] = {
    "tir.add_lower_pass": (),
    "tir.UnrollLoop": {},
    "tir.LoopPartition": {},
    "tir.disable_vectorize": False,
    "tir.disable_storage_rewrite": False,
    "tir.disable_cse_tir": False,
    "tir.disable_loop_partition": False,
}


# Keys that TVM knows and that change nothing here; each with the reason.
WITHOUT_EFFECT: Mapping[str, str] = {
    "tir.Simplify": "there is one simplifier, which uses all that it can prove",
    "tir.HoistIfThenElse": "conditions are hoisted wherever that is possible",
    "tir.HoistExpression": "LLVM hoists expressions",
    "tir.RemoveNoOp": "statements without effect are always removed",
    "tir.ReduceBranchingThroughOvercompute": "no pass computes more in order to branch less",
    "tir.InjectDoubleBuffer": "no pass makes double buffers",
    "tir.disable_assert": "assertions cost next to nothing, and stay",
    "tir.instrument_bound_checkers": "accesses that may be out of bounds are refused or checked",
    "tir.enable_equiv_terms_in_cse_tir": "common subexpressions are compared after simplification",
    "tir.enable_buffer_level_predication": "LLVM chooses masked instructions",
    "tir.debug_keep_trivial_loop": "loops of one iteration vanish in the first simplification",
    "tir.detect_global_barrier": "for GPUs",
    "tir.use_async_copy": "for GPUs",
    "tir.merge_async_commit_queue_scope": "for GPUs",
    "tir.ptx_ldg32": "for GPUs",
    "tir.vtcm_capacity": "for Hexagon",
    "tir.instrument_lwp": "for Hexagon",
    "tir.experimental_dma_bypass_cache": "for Hexagon",
    "tir.dma_bypass_cache": "for Hexagon",
}


class PassInstrument(Protocol):
    """Looks at modules between passes; every method is optional.

    Besides these `enter_pass_ctx()`, `exit_pass_ctx()` and `should_run(module, info)`.
    """

    def run_before_pass(self, module: IRModule, info: Pass) -> None: ...

    def run_after_pass(self, module: IRModule, info: Pass) -> None: ...


_active: contextvars.ContextVar[tuple[PassContext, ...]] = contextvars.ContextVar(
    "tilewright_pass_contexts", default=()
)


@dataclass(frozen=True)
class PassContext:
    """Options for everything that is lowered inside `with PassContext(...):`."""

    opt_level: int = 2
    config: Mapping[str, object] = field(default_factory=dict)
    disabled_pass: Iterable[str] = ()
    instruments: Sequence[object] = ()
    required_pass: Iterable[str] = ()  # accepted for the sake of existing code: all passes run

    def __post_init__(self) -> None:
        for name, nothing in (("config", {}), ("disabled_pass", ()), ("instruments", ())):
            if getattr(self, name) is None:
                object.__setattr__(self, name, nothing)
        for key in self.config:
            if key not in DEFAULTS and key not in WITHOUT_EFFECT:
                raise LowerError(f"PassContext has no option {key!r}{did_you_mean(key, DEFAULTS)}")
        for entry in self.option("tir.add_lower_pass"):
            _check_user_pass(entry)
        for key in ("tir.UnrollLoop", "tir.LoopPartition"):
            known = get_pass(key.removeprefix("tir.")).options()
            for name in self.option(key):
                if name not in known:
                    raise LowerError(f"{key} has no option {name!r}{did_you_mean(name, known)}")

    @staticmethod
    def current() -> PassContext:
        """The innermost active context, or one with all defaults."""
        active = _active.get()
        return active[-1] if active else PassContext()

    @staticmethod
    def is_active() -> bool:
        """Whether somebody has set options."""
        return bool(_active.get())

    def __enter__(self) -> PassContext:
        _active.set((*_active.get(), self))
        list(self._tell("enter_pass_ctx"))
        return self

    def __exit__(self, *exc_info: object) -> None:
        list(self._tell("exit_pass_ctx"))
        _active.set(_active.get()[:-1])

    def option(self, key: str) -> Any:
        """The value of one option."""
        return self.config.get(key, DEFAULTS[key])

    def user_passes(self, phase: int) -> list[Pass]:
        """The user's passes to run at a phase, in the order given."""
        return [as_pass(item) for at, item in self.option("tir.add_lower_pass") if at == phase]

    def enables(self, what: str) -> bool:
        """Whether no `tir.disable_...` speaks against a step."""
        return not self.option(f"tir.disable_{what}")

    def configured(self, pass_class: type[FunctionPass], **defaults: object) -> FunctionPass:
        """A pass with the options of its key, `tir.<name>`."""
        return pass_class(**{**defaults, **self.option(f"tir.{pass_class.name}")})

    def run(self, step: Pass, module: IRModule, target: Target | None) -> IRModule:
        """Run a pass unless somebody objects; instruments see the module before and after."""
        if step.name in self.disabled_pass:
            return module
        if not self.instruments:
            return step(module, target)
        if not all(self._tell("should_run", module, step)):
            return module
        list(self._tell("run_before_pass", module, step))
        result = step(module, target)
        list(self._tell("run_after_pass", result, step))
        return result

    def _tell(self, event: str, *about: object) -> Iterator[object]:
        """The answers of the instruments that have a method for an event."""
        return (getattr(each, event)(*about) for each in self.instruments if hasattr(each, event))


@dataclass(frozen=True)
class Sequential:
    """Runs passes in order; `PassContext` may disable some of them, and watch all."""

    passes: Sequence[object] = ()
    opt_level: int = 0
    name: str = "sequential"

    def __call__(self, module: IRModule, target: Target | None = None) -> IRModule:
        context = PassContext.current()
        for step in map(as_pass, self.passes):
            module = context.run(step, module, target)
        return module


def _check_user_pass(entry: object) -> None:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2 or entry[0] not in PHASES:
        raise LowerError(
            f"tir.add_lower_pass: {entry!r} is not a (phase, pass) pair with a phase from 0 to 3"
        )
    as_pass(entry[1])
