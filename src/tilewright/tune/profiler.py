"""`Profiler`: where the time of a tuning run goes.

with Profiler() as profiler:
    tune_tir(...)
print(profiler.table())
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Iterator
from contextlib import contextmanager

from typing_extensions import Self

from tilewright.errors import TuneError
from tilewright.tune.logs import text_table

_current: contextvars.ContextVar[tuple[Profiler, ...]] = contextvars.ContextVar(
    "tilewright_profilers", default=()
)


class Profiler:
    """Adds up the time of named steps while it is the innermost profiler in scope."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._started: float | None = None

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.set(_current.get()[:-1])
        assert self._started is not None
        self._seconds["Total"] = time.perf_counter() - self._started
        self._started = None

    def get(self) -> dict[str, float]:
        """Seconds by name; `Total` is that of the whole scope."""
        return dict(self._seconds)

    def add(self, name: str, seconds: float) -> None:
        """Count time under a name."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def table(self) -> str:
        """The steps as a table, the longest first."""
        if self._started is not None or not self._seconds:
            raise TuneError("a profiler has a table only after its `with` block has ended")
        total = self._seconds.get("Total", 0.0) or 1.0
        by_share = sorted(self._seconds.items(), key=lambda item: -item[1])
        names = [("Total", total), *(item for item in by_share if item[0] != "Total")]
        rows = [
            ["" if position == 0 else position, name, seconds / 60, 100 * seconds / total]
            for position, (name, seconds) in enumerate(names)
        ]
        return text_table(["ID", "Name", "Time (min)", "Percentage"], rows)

    @staticmethod
    def current() -> Profiler | None:
        """The innermost profiler in scope."""
        profilers = _current.get()
        return profilers[-1] if profilers else None

    @staticmethod
    def count(name: str, seconds: float) -> None:
        """Count time that passed elsewhere, in a worker for example, if there is a profiler."""
        profiler = Profiler.current()
        if profiler is not None:
            profiler.add(name, seconds)

    @staticmethod
    @contextmanager
    def timeit(name: str) -> Iterator[None]:
        """Count the time of a `with` block under a name; nothing happens without a profiler."""
        profiler = Profiler.current()
        start = time.perf_counter()
        try:
            yield
        finally:
            if profiler is not None:
                profiler.add(name, time.perf_counter() - start)
