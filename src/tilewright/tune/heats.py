"""Heats: contenders run against each other until their order is beyond noise.

A heat is a few rows of runs of all contenders in turns, so that what disturbs the machine disturbs
them all: how two of them compare within a heat says more than how long either takes. Heats go on
until it is clear for each contender that it is slower than the leader, or as good, or until the
time is used up. Those that are clearly slower drop out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median, stdev

from tilewright.records import RunnerInput, RunnerResult

EQUAL = 0.02  # who takes so much longer at most is as good
LEAST_HEATS, MOST_HEATS = 3, 24

Heat = Callable[[Sequence[RunnerInput]], Sequence[RunnerResult]]  # measures all, in turns


@dataclass
class _Runner:
    """A contender and its times, by heat."""

    given: RunnerInput
    last: RunnerResult | None = None
    times: dict[int, float] = field(default_factory=dict)
    is_out: bool = False  # it failed, or is clearly slower

    @property
    def has_failed(self) -> bool:
        return self.last is not None and not self.last.run_secs


def run_heats(inputs: Sequence[RunnerInput], heat: Heat, seconds: float) -> list[RunnerResult]:
    """One result for each input; its time is what all heats together say."""
    runners = [_Runner(given) for given in inputs]
    start = time.monotonic()
    for number in range(MOST_HEATS):
        _run(number, [each for each in runners if not each.is_out], heat)
        left = [each for each in runners if not each.is_out]
        if len(left) < 2 and number:
            break
        if number + 1 >= LEAST_HEATS and (_is_decided(left) or time.monotonic() - start > seconds):
            break
    return _results(runners)


def _run(number: int, runners: Sequence[_Runner], heat: Heat) -> None:
    results = heat([each.given for each in runners])
    for runner, result in zip(runners, results, strict=True):
        runner.last = result
        if result.run_secs:
            runner.times[number] = median(result.run_secs)
        else:
            runner.is_out = True


def _is_decided(left: Sequence[_Runner]) -> bool:
    """Is it clear of all but the leader that they are slower, or as good? The slower are out."""
    leader = min(left, key=lambda each: median(each.times.values()))
    is_decided = True
    for runner in left:
        if runner is leader:
            continue
        lags = _lags(runner, leader)
        noise = _noise(lags)
        if mean(lags) > noise:
            runner.is_out = True
        elif abs(mean(lags)) + noise > EQUAL:
            is_decided = False
    return is_decided


def _lags(runner: _Runner, leader: _Runner) -> list[float]:
    """How much longer one took than the other, as logarithms, in the heats of both."""
    return [math.log(secs / leader.times[heat]) for heat, secs in runner.times.items()]


def _noise(lags: Sequence[float]) -> float:
    """What the mean may be off by: the fewer heats, the less is known of their spread, too."""
    return (2 + 4 / (len(lags) - 1)) * stdev(lags) / math.sqrt(len(lags))


def _results(runners: Sequence[_Runner]) -> list[RunnerResult]:
    """The leader's median; of the others how they compare with it in the heats of both."""
    ran = [each for each in runners if not each.has_failed]
    if not ran:
        return [each.last for each in runners if each.last is not None]
    leader = min(ran, key=lambda each: (each.is_out, median(each.times.values())))
    return [_result(each, leader) for each in runners]


def _result(runner: _Runner, leader: _Runner) -> RunnerResult:
    assert runner.last is not None
    if runner.has_failed:
        return runner.last
    secs = median(leader.times.values())
    if runner is not leader:
        secs *= math.exp(median(_lags(runner, leader)))
    return replace(runner.last, run_secs=(secs,))
