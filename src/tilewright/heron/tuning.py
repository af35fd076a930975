"""Heron's loop for one case: ask a strategy, measure, tell it; two files keep the minutes."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tilewright.errors import TuneError
from tilewright.heron.config import HeronConfig
from tilewright.heron.measuring import HeronMeasurer, HeronOutcome
from tilewright.heron.space import HeronSpace
from tilewright.search.constrained import ConstrainedStrategy, constrained_strategies
from tilewright.solver.array_solver import ArraySpace
from tilewright.solver.model_text import model_program

RECORDS, STATISTICS = "records.txt", "stat.txt"
_FEASIBLE_SAMPLES = 1000
_WORST = 1e-6  # the score of what works and takes a second or longer


@dataclass
class HeronResult:
    """How a case went."""

    best_secs: float | None = None
    best_values: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class HeronRun:
    """One case on one machine; files go to `folder`."""

    space: HeronSpace
    solutions: ArraySpace
    config: HeronConfig
    folder: Path
    seed: int = 0
    on_round: Callable[[int, HeronResult], None] = lambda number, result: None

    def write_space(self) -> None:
        """The model for CP-SAT and the schedule as text; records of an earlier run go."""
        try:
            self._write_space()
        except OSError as error:
            raise TuneError(
                f"cannot write {error.filename}, which follows from 'out_name', the name of the "
                f"case and 'feasible_file_path': {error.strerror}"
            ) from error

    def _write_space(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        program = model_program(self.space.problem)
        (self.folder / "constraints.py").write_text(program, encoding="utf-8")
        (self.folder / "schedule.py").write_text(self.space.script({}), encoding="utf-8")
        feasible = self.folder / self.config.feasible_file_path
        feasible.write_text(json.dumps(self._feasible()), encoding="utf-8")
        for name in (RECORDS, STATISTICS):
            (self.folder / name).write_text("", encoding="utf-8")

    def _feasible(self) -> dict[str, list[int]]:
        """For each variable the values that it has in some random solutions."""
        drawn = self.solutions.sample(_FEASIBLE_SAMPLES, np.random.default_rng(self.seed)).values
        names = self.solutions.names
        return {name: np.unique(drawn[:, place]).tolist() for place, name in enumerate(names)}

    def tune(self, measurer: HeronMeasurer) -> HeronResult:
        """Measure at most `max_trials` candidates."""
        strategy = self._strategy()
        result = HeronResult()
        started = time.perf_counter()
        rounds = math.ceil(self.config.max_trials / self.config.measure_time_per_round)
        for number in range(rounds):
            left = self.config.max_trials - result.trials
            if not self._round(number, strategy, measurer, result, left, started):
                break
            self.on_round(number, result)
        return result

    def _strategy(self) -> ConstrainedStrategy:
        names = list(self.solutions.names)
        knobs = [names.index(knob) for knob in self.space.knobs]
        settings = self.config.settings()
        kind = self.config.method.lower()
        return constrained_strategies.create(kind, self.solutions, knobs, settings, self.seed)

    def _round(
        self,
        number: int,
        strategy: ConstrainedStrategy,
        measurer: HeronMeasurer,
        result: HeronResult,
        left: int,
        started: float,
    ) -> bool:
        """One batch; False: there is nothing new to measure."""
        clock = [time.perf_counter()]
        points = strategy.ask(min(self.config.measure_time_per_round, left))
        if not len(points):
            return False
        clock.append(time.perf_counter())
        values = [dict(zip(strategy.space.names, row, strict=True)) for row in points.tolist()]
        outcomes = measurer.measure(values)
        clock.append(time.perf_counter())
        strategy.tell(points, [_score(outcome) for outcome in outcomes])
        clock.append(time.perf_counter())
        self._take(values, outcomes, result)
        spent = [later - before for before, later in itertools.pairwise(clock)]
        self._note(number, spent, clock[-1] - started, result)
        return True

    def _take(
        self, values: list[dict[str, int]], outcomes: list[HeronOutcome], result: HeronResult
    ) -> None:
        knobs = self.space.knobs
        with (self.folder / RECORDS).open("a", encoding="utf-8") as file:
            for each, outcome in zip(values, outcomes, strict=True):
                result.trials += 1
                row = {
                    "code": "_".join(str(each[name]) for name in knobs),
                    "perf": perf_of(outcome),
                    "latency": outcome.secs,
                    "time": time.time(),
                    "variables": each,
                }
                file.write(json.dumps(row) + "\n")
                if outcome.secs is None:
                    result.failures.append(outcome.reason)
                elif result.best_secs is None or outcome.secs < result.best_secs:
                    result.best_secs, result.best_values = outcome.secs, each

    def _note(self, number: int, spent: list[float], elapsed: float, result: HeronResult) -> None:
        row = {
            "round": number,
            "sample_time": spent[0],
            "measure_time": spent[1],
            "train_time": spent[2],
            "elapsed": elapsed,
            "best_perf": perf_of(HeronOutcome(result.best_secs)),
        }
        with (self.folder / STATISTICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def perf_of(outcome: HeronOutcome) -> float:
    """Heron's figure of merit: the logarithm of runs a second; 0: it failed."""
    return 0.0 if outcome.secs is None else math.log(1.0 / outcome.secs)


def _score(outcome: HeronOutcome) -> float:
    return 0.0 if outcome.secs is None else max(_WORST, perf_of(outcome))
