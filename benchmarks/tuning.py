"""What benchmarks of the tuner share: tuning a function, timing kernels in turns, TVM beside us.

Kernels of one workload are timed in turns, and the median of each counts.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness import SETTLE_SECONDS, TVM_PYTHON, Report, Rival, Row

from tilewright import meta_schedule as ms
from tilewright.driver import build
from tilewright.ir import IRModule, PrimFunc
from tilewright.target import Target

RIVALS = Path(__file__).resolve().parent / "rivals"
ROW_SECONDS = 0.02  # of each measurement
ROUNDS = 15

Measure = Callable[[], float]  # seconds of one call


class Timed(Protocol):
    """A compiled function."""

    def time_evaluator(self, *, number: int) -> Callable[..., Any]: ...


def times_to_call(seconds: float) -> int:
    """How many calls of so many seconds fill a row."""
    return max(1, int(ROW_SECONDS / max(1e-7, seconds)))


def in_a_row(call: Callable[[], object]) -> Measure:
    """Seconds of one call, the mean of as many as fit a row."""
    call()
    start = time.perf_counter()
    call()
    number = times_to_call(time.perf_counter() - start)

    def measure() -> float:
        call()  # wakes the threads
        begin = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - begin) / number

    return measure


def in_rows(function: Timed, arrays: Sequence[Any]) -> Measure:
    """The same for a function of ours."""
    once = function.time_evaluator(number=1)(*arrays).mean
    timer = function.time_evaluator(number=times_to_call(once))
    return lambda: float(timer(*arrays).mean)


def medians_in_turns(kernels: Mapping[str, Measure]) -> dict[str, float]:
    """The median of each kernel, measured in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(ROUNDS):
        for name, measure in kernels.items():
            time.sleep(SETTLE_SECONDS)
            seconds[name].append(measure())
    return {name: statistics.median(own) for name, own in seconds.items()}


@dataclass(frozen=True)
class Tuned:
    """What our tuner found."""

    mod: IRModule
    wall: float
    spread: float  # how many times slower than the best the median candidate was

    def measure(self, arrays: Sequence[Any], constants: Sequence[int] = ()) -> Measure:
        """The best kernel on these arrays.

        What it packs is part of the time, but for the arguments at the positions of `constants`.
        """
        module = build(self.mod)
        if not constants:
            return in_rows(module["main"], arrays)
        names = [spec.name for spec in module.signature()]
        bound = module.bind(**{names[position]: arrays[position] for position in constants})
        others = [array for n, array in enumerate(arrays) if n not in constants]
        return in_rows(bound, others)

    @property
    def spread_note(self) -> str:
        return f"median candidate {self.spread:.1f}x the best"


def tune(func: PrimFunc, trials: int, name: str) -> Tuned:
    """Tune a function for this machine."""
    start = time.perf_counter()
    database = ms.tune_tir(func, "llvm", None, trials, seed=1, console=False, database="memory")
    wall = time.perf_counter() - start
    best = ms.compile_tir(database, func, "llvm")
    assert best is not None, f"{name}: no candidate worked"
    records = [r.mean_secs for r in database.get_all_tuning_records() if r.is_valid]
    return Tuned(best.mod, wall, statistics.median(records) / min(records))


@dataclass(frozen=True)
class TunedByTvm:
    """What TVM found."""

    wall: float
    measure: Measure
    note: str


class TvmTuner:
    """TVM with MetaSchedule in a process of its own, for the CPU of this machine."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._rival = self._start()

    def _start(self) -> Rival:
        target = Target("llvm")
        options = {"kind": "llvm", "mcpu": target.mcpu, "num-cores": target.num_cores}
        return Rival(TVM_PYTHON, RIVALS / self._script, json.dumps(options))

    def tune(self, report: Report, row: str, *question: Any) -> TunedByTvm | None:
        """Tune a workload; where that fails, the report says why."""
        try:
            answer = self._rival.ask(json.dumps(["tune", *question]))
        except RuntimeError as error:
            self._rival = self._start()
            answer = {"error": str(error)}
        if "error" in answer:
            report.skip(f"{row} against tvm", answer["error"])
            return None
        number = times_to_call(self._time(1))
        note = f"its median candidate {answer['spread']:.1f}x the best{answer['note']}"
        return TunedByTvm(answer["wall"], lambda: self._time(number), note)

    def _time(self, number: int) -> float:
        return float(self._rival.ask(json.dumps(["time", number])))

    def close(self) -> None:
        self._rival.close()


def tvm_tuner(script: str) -> TvmTuner | None:
    """TVM, where it is installed."""
    if not TVM_PYTHON.exists():
        print("TVM is missing: `make bench-env` installs it")
        return None
    return TvmTuner(script)


def add_rows(
    report: Report,
    row: str,
    ours: Tuned,
    theirs: TunedByTvm | None,
    times: Mapping[str, float],
    torch_kernels: Collection[str],
) -> None:
    """Our kernel beside PyTorch's best and TVM's, then what tuning took."""
    best = times["ours"] * 1e6
    note = ours.spread_note
    rivals = sorted(torch_kernels, key=lambda name: times[name])
    if rivals:
        fastest, *others = (f"{name} {times[name] * 1e6:.0f}" for name in rivals)
        note = f"{fastest}{', beside ' if others else ''}{', '.join(others)}; {note}"
    torch_best = times[rivals[0]] * 1e6 if rivals else None
    report.add(Row(row, best, torch_best, "pytorch", "us", note))
    if theirs is not None:
        report.add(Row(row, best, times["tvm"] * 1e6, "tvm", "us", theirs.note))
    their_wall = None if theirs is None else theirs.wall
    report.add(Row(f"tune_wall_{row}", ours.wall, their_wall, "tvm", "s"))


def tuning_arguments(description: str, quick: str) -> argparse.Namespace:
    """The options of a benchmark of the tuner."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--no-tvm", action="store_true", help="do not tune with TVM")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="run only these rows")
    return parser.parse_args()


def show_mean(report: Report, label: str, rival: str, prefix: str | tuple[str, ...]) -> None:
    """The geometric mean of the ratios against a rival in some rows, and the worst of them."""
    ratios = {
        row.name: row.ratio
        for row in report.rows
        if row.rival_name == rival and row.ratio and row.name.startswith(prefix)
    }
    if ratios:
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
        worst = max(ratios, key=lambda name: ratios[name])
        print(
            f"{label} against {rival}: geometric mean {mean:.2f}, worst {worst} "
            f"{ratios[worst]:.2f} ({len(ratios)} workloads)"
        )
