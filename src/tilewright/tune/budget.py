"""`Budget`: the time of a tuning run, and how many candidates can be measured in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.errors import TuneError

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")

FIRST_GUESS = 0.1  # seconds that a candidate takes, before any was measured
FINAL_SECS = 0.4  # kept for the final of each task, if the budget is not too small for that
UNHURRIED_FINAL_SECS = 0.6, 2.0  # at least and at most, without a limit of time
_FINAL_SHARE = 0.1


def parse_seconds(text: str, option: str) -> float:
    """Seconds of `90s`, `10m`, `1h30m`; a number alone counts seconds."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        seconds = float(text)
    elif re.fullmatch(f"(?:{_TIME.pattern})+", text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _TIME.findall(text))
    else:
        raise TuneError(f"{option} {text}: expected a time such as 90s, 10m or 1h30m")
    if seconds <= 0:
        raise TuneError(f"{option} {text}: expected a time above zero")
    return seconds


@dataclass
class Budget:
    """The time of a tuning run; without `seconds` it never ends."""

    seconds: float | None
    clock: Callable[[], float]
    tasks: int = 1  # that will have a final

    def __post_init__(self) -> None:
        self.start = self.clock()
        self._per_trial = FIRST_GUESS
        self._measured = False
        self._search = 0.0
        self._final = 0.0

    @property
    def is_over(self) -> bool:
        """True when all of the time is used up, that for finals included."""
        return self.seconds is not None and self.elapsed >= self.seconds

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.start

    def left(self) -> float:
        """Seconds for searching and measuring."""
        if self.seconds is None:
            return float("inf")
        return self.seconds - max(self.final_secs(), self._final) * self.tasks - self.elapsed

    def final_secs(self) -> float:
        """Seconds for the final of a task."""
        if self.seconds is None:
            least, most = UNHURRIED_FINAL_SECS
            return min(max(least, _FINAL_SHARE * self.elapsed), most)
        return min(FINAL_SECS, _FINAL_SHARE * self.seconds / self.tasks)

    def has_time(self) -> bool:
        """True while another candidate may be run."""
        return self.left() > 0

    def allows_round(self) -> bool:
        """True if there is time for a search and something to measure after it.

        However little time there is, something is measured.
        """
        return not self._measured or self.left() > self._search / 2

    def fitting(self, count: int) -> int:
        """How many of `count` candidates fit the budget, at least one."""
        left = self.left()
        if left == float("inf"):
            return count
        return max(1, min(count, int(left / self._per_trial)))

    def searched(self, seconds: float) -> None:
        """Learn how long a search takes."""
        self._search = seconds

    def held_final(self, seconds: float) -> None:
        """Learn how long a final takes, with what has to be built for it."""
        self._final = (self._final + seconds) / 2 if self._final else seconds

    def measured(self, count: int, seconds: float) -> None:
        """Learn how long candidates take; what was learned last counts most."""
        if count:
            new = seconds / count
            self._per_trial = (self._per_trial + new) / 2 if self._measured else new
            self._measured = True
