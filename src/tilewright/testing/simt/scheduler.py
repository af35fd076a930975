"""Takes turns among warps, in a random order that a seed gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tilewright.testing.simt.threads import RaceError, Wait

_CHANGE = 0.06  # how often another warp comes first
_LANDING = 0.3  # how often a copy lands, where they do not land late
GO_ON = Wait(lambda: True, lambda: "its turn")


class Scheduler:
    """Runs the warps of a block, and lets copies land: now and then, or as late as can be."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._is_late = bool(random.integers(2))
        self._order: dict[str, float] = {}
        self._loads: list[Callable[[], None]] = []
        self._stores: list[Callable[[], None]] = []

    def load_later(self, copy: Callable[[], None]) -> None:
        """A copy that warps wait for: it lands when nobody can go on, or earlier."""
        self._loads.append(copy)

    def store_later(self, copy: Callable[[], None]) -> None:
        """A copy that is done where it is waited for, or earlier."""
        self._stores.append(copy)

    def run(self, warps: Mapping[str, Iterator[Wait]]) -> None:
        """Run warps to their end."""
        waiting = dict.fromkeys(warps, GO_ON)
        while waiting:
            ready = [name for name, wait in waiting.items() if wait.ready()]
            if self._lands_early(self._stores) or self._lands_early(self._loads):
                continue
            if ready:
                name = self._first(ready)
                self._go_on(waiting, name, warps[name])
            elif self._loads:
                self._land(self._loads)
            else:
                reasons = (f"{name} waits for {wait.reason()}" for name, wait in waiting.items())
                raise RaceError("nobody can go on: " + ", ".join(reasons))

    def finish(self) -> None:
        """Results are there when a block has ended."""
        for copy in self._stores:
            copy()

    def _go_on(self, waiting: dict[str, Wait], name: str, warp: Iterator[Wait]) -> None:
        try:
            waiting[name] = next(warp)
        except StopIteration:
            del waiting[name]

    def _lands_early(self, copies: list[Callable[[], None]]) -> bool:
        if self._is_late or not copies or self._random.random() > _LANDING:
            return False
        self._land(copies)
        return True

    def _land(self, copies: list[Callable[[], None]]) -> None:
        copies.pop(self._random.integers(len(copies)))()

    def _first(self, ready: list[str]) -> str:
        if not self._order or self._random.random() < _CHANGE:
            self._order = {}
        for name in ready:
            self._order.setdefault(name, self._random.random())
        return max(ready, key=self._order.__getitem__)
