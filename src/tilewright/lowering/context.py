"""`PassContext`: options of the pipeline, the user's own passes, and instruments.

with PassContext(config={"tir.disable_vectorize": True}):
    lower(mod)
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilewright.errors import LowerError
from tilewright.ir import IRModule
from tilewright.lowering.base import Pass, as_pass, get_pass
from tilewright.support.suggestions import did_you_mean

PHASES = range(4)

# Every key that `config` may hold, with its default.
DEFAULTS: Mapping[str, Any] = {
    "tir.add_lower_pass": (),
    "tir.UnrollLoop": {},
    "tir.LoopPartition": {},
    "tir.disable_vectorize": False,
    "tir.disable_storage_rewrite": False,
    "tir.disable_cse_tir": False,
    "tir.disable_loop_partition": False,
}


class PassInstrument(Protocol):
    """Looks at modules between passes; both methods are optional."""

    def run_before_pass(self, module: IRModule, info: Pass) -> None: ...

    def run_after_pass(self, module: IRModule, info: Pass) -> None: ...


_active: contextvars.ContextVar[tuple[PassContext, ...]] = contextvars.ContextVar(
    "tilewright_pass_contexts", default=()
)


@dataclass(frozen=True)
class PassContext:
    """Options for everything that is lowered inside `with PassContext(...):`."""

    opt_level: int = 2
    config: Mapping[str, Any] = field(default_factory=dict)
    disabled_pass: Iterable[str] = ()
    instruments: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for key in self.config:
            if key not in DEFAULTS:
                raise LowerError(f"PassContext has no option {key!r}{did_you_mean(key, DEFAULTS)}")
        for entry in self.option("tir.add_lower_pass"):
            _check_user_pass(entry)
        for key in ("tir.UnrollLoop", "tir.LoopPartition"):
            _check_pass_options(key, self.option(key))

    @staticmethod
    def current() -> PassContext:
        """The innermost active context, or one with all defaults."""
        active = _active.get()
        return active[-1] if active else PassContext()

    def __enter__(self) -> PassContext:
        _active.set((*_active.get(), self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _active.set(_active.get()[:-1])

    def option(self, key: str) -> Any:
        """The value of one option."""
        return self.config.get(key, DEFAULTS[key])

    def user_passes(self, phase: int) -> list[Pass]:
        """The user's passes to run at a phase, in the order given."""
        return [as_pass(item) for at, item in self.option("tir.add_lower_pass") if at == phase]

    def run_before_pass(self, module: IRModule, info: Pass) -> None:
        for instrument in self.instruments:
            getattr(instrument, "run_before_pass", _ignore)(module, info)

    def run_after_pass(self, module: IRModule, info: Pass) -> None:
        for instrument in self.instruments:
            getattr(instrument, "run_after_pass", _ignore)(module, info)


def _ignore(module: IRModule, info: Pass) -> None:
    """What an instrument without that method does."""


def _check_pass_options(key: str, options: Mapping[str, Any]) -> None:
    known = get_pass(key.removeprefix("tir.")).options()
    for name in options:
        if name not in known:
            raise LowerError(f"{key} has no option {name!r}{did_you_mean(name, known)}")


def _check_user_pass(entry: Any) -> None:
    if not isinstance(entry, (tuple, list)) or len(entry) != 2 or entry[0] not in PHASES:
        raise LowerError(
            f"tir.add_lower_pass: {entry!r} is not a (phase, pass) pair with a phase from 0 to 3"
        )
    as_pass(entry[1])
