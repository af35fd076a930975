"""The course of a task: its measurements in order and the best so far, as many as pictures show."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.database import Trial

MOST_DOTS = 1000
_MOST_STEPS = 500  # of the best; a picture has fewer pixels

Point = tuple[int, float]  # the place of a trial, from 1, and its seconds


@dataclass(frozen=True)
class Course:
    """How a search went. Of very many measurements a part, spread evenly."""

    trials: int
    failed: int = 0  # those without a running time
    dots: Sequence[Point] = ()  # those that have a running time
    best: Sequence[Point] = ()  # those that were the best so far
    runs: Sequence[tuple[int, int]] = ()  # where a later run began: place, number of the run

    @staticmethod
    def of(
        measured: Iterable[tuple[int, float | None]], begins: Iterable[tuple[int, int]] = ()
    ) -> Course:
        """Of numbered measurements in order, and the numbers at which runs began."""
        dots, best = _Thinned(MOST_DOTS), _Thinned(_MOST_STEPS)
        starts = sorted(begins)
        runs: list[tuple[int, int]] = []
        place, failed, least = 0, 0, float("inf")
        for place, (number, secs) in enumerate(measured, 1):
            while starts and starts[0][0] <= number:
                runs.append((place, starts.pop(0)[1]))
            if secs is None:
                failed += 1
                continue
            dots.add((place, secs))
            if secs < least:
                least = secs
                best.add((place, secs))
        later = [each for each in runs if each[0] > 1]
        return Course(place, failed, dots.points, best.points, later)

    @staticmethod
    def of_trials(trials: Sequence[Trial]) -> Course:
        """Of trials in order."""
        starts = [
            (number, after.run)
            for number, (before, after) in enumerate(itertools.pairwise([None, *trials]))
            if after is not None and (before is None or after.run != before.run)
        ]
        return Course.of(((n, trial.mean_secs) for n, trial in enumerate(trials)), starts)

    def staircase(self) -> Iterator[tuple[float, float]]:
        """The best so far as the corners of a line."""
        for before, (place, secs) in zip([None, *self.best], self.best, strict=False):
            if before is not None:
                yield place, before[1]
            yield place, secs
        if self.best:
            yield self.trials, self.best[-1][1]


class _Thinned:
    """Points of which every second one goes when there are too many; the last one stays."""

    def __init__(self, most: int) -> None:
        self._most = 2 * most
        self._step, self._seen = 1, 0
        self._kept: list[Point] = []
        self._last: Point | None = None

    def add(self, point: Point) -> None:
        self._last = point
        if self._seen % self._step == 0:
            self._kept.append(point)
            if len(self._kept) > self._most:
                del self._kept[1::2]
                self._step *= 2
        self._seen += 1

    @property
    def points(self) -> list[Point]:
        if self._last is None or self._kept[-1] == self._last:
            return self._kept
        return [*self._kept, self._last]
