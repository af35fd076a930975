"""Instruments of `PassContext`: print modules around passes, or time the passes."""

from __future__ import annotations

import time

from tilewright.ir import IRModule
from tilewright.lowering.base import Pass


class PrintBeforeAll:
    """Prints the module before each pass."""

    def run_before_pass(self, module: IRModule, info: Pass) -> None:
        print(f"# before {info.name}\n{module}")


class PrintAfterAll:
    """Prints the module after each pass."""

    def run_after_pass(self, module: IRModule, info: Pass) -> None:
        print(f"# after {info.name}\n{module}")


class PassTimingInstrument:
    """Keeps the time that each pass took; `render` tells, while the context is active or after."""

    def __init__(self) -> None:
        self.times: list[tuple[str, float]] = []
        self._start = 0.0

    def run_before_pass(self, module: IRModule, info: Pass) -> None:
        self._start = time.perf_counter()

    def run_after_pass(self, module: IRModule, info: Pass) -> None:
        self.times.append((info.name, time.perf_counter() - self._start))

    def render(self) -> str:
        """One line a pass."""
        return "\n".join(f"{name}: {seconds * 1e6:.0f}us" for name, seconds in self.times)
