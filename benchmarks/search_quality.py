"""The best kernel after 16, 64 and 256 trials: the default search and its rivals, over many seeds.

    python benchmarks/search_quality.py [--records FILE] [--curves FILE ...] [--replay]
        [--target TARGET] [--space NAME] [--trials 256] [--seeds 5] [--only WORKLOAD ...]
        [--strategies NAME ...] [--json FILE] [--plot FILE]

Each program is measured once, whichever search comes to it first, and kept in the file of records:
noise cannot favour a search. With `--replay` nothing is measured, and what has no record fails;
`--target` is the machine where the records are from. A row compares geometric means over all
workloads and seeds, and says between which ratios the true one lies with 95 %, by drawing seeds
again; the plot shows speeds as shares of the best that any search found, with the
seeds between the 10th and the 90th hundredth as a band.

Searches that stand in a file of curves are not run again, and new ones are added to the first: a
run that was stopped goes on, and workloads that ran beside each other on cores of their own are
joined.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import HEADER, Report, Row, finish

from tilewright import meta_schedule as ms
from tilewright.ir import structural_hash
from tilewright.measure import Builder, FinishedFuture, FunctionFuture, Runner
from tilewright.measure.local_builder import LocalBuilder
from tilewright.measure.local_runner import LocalRunner
from tilewright.records import (
    BuilderInput,
    BuilderResult,
    FailureKind,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)
from tilewright.report.svg import Axis, Plot
from tilewright.search.base import SearchStrategy
from tilewright.testing.te_workload import create_te_workload

WORKLOADS = ("GMM", "C1D", "C2D", "DEP", "DIL", "CBR", "SFM", "TBG")
DEFAULT = "default"
RIVALS = (
    "arrays", "evolutionary", "evolutionary-tvm", "replay-trace", "cga", "crand", "sa", "ga",
    "rcga", "srga", "sdga", "idea",
)  # fmt: skip
MARKS = (16, 64, 256)
NEVER = float("inf")
DRAWS = 4000  # of seeds, for intervals
FIRST_SHOWN = 4  # trials, in the plot


class Records:
    """Seconds by program, in a file of lines to which new ones are added."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, float] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, secs = json.loads(line)
                self._known[key] = NEVER if secs is None else secs

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> float | None:
        return self._known.get(key)

    def add(self, key: str, secs: float) -> None:
        """Keep what a program took; infinity if it failed."""
        self._known[key] = secs
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, None if secs == NEVER else secs]) + "\n")


class RecordedBuilder(Builder):
    """Compiles what has no record."""

    def __init__(self, records: Records, builder: Builder | None) -> None:
        self._records = records
        self._builder = builder  # None: nothing is compiled

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        new = [each for each in build_inputs if self._needs(each)]
        built = iter(self._builder.build(new) if self._builder is not None and new else ())
        return [next(built) if self._needs(each) else BuilderResult("") for each in build_inputs]

    def _needs(self, each: BuilderInput) -> bool:
        return self._builder is not None and self._records.get(_key_of(each.mod)) is None


class RecordedRunner(Runner):
    """Measures what has no record; `times` are those of all trials so far, in order."""

    def __init__(self, records: Records, runner: Runner | None) -> None:
        self._records = records
        self._runner = runner
        self.times: list[float] = []

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [self._run(each) for each in runner_inputs]

    def _run(self, given: RunnerInput) -> RunnerFuture:
        assert given.candidate is not None
        key, place = _key_of(given.candidate.sch.mod), len(self.times)
        known = self._records.get(key)
        self.times.append(NEVER if known is None else known)
        if known is not None:
            return FinishedFuture(_result_of(known))
        if self._runner is None:
            return FinishedFuture(_result_of(NEVER))
        (future,) = self._runner.run([given])

        def result() -> RunnerResult:
            found = future.result()
            secs = float(np.median(found.run_secs)) if found.run_secs else NEVER
            self.times[place] = secs
            self._records.add(key, secs)
            return found

        return FunctionFuture(future.done, result)


def _key_of(mod: Any) -> str:
    return f"{structural_hash(mod):016x}"


def _result_of(secs: float) -> RunnerResult:
    if secs == NEVER:
        return RunnerResult(None, "no record of a run", FailureKind.RUN_ERROR)
    return RunnerResult((secs,))


@dataclass(frozen=True)
class Setting:
    """What all searches of a run share."""

    records: Records
    target: str
    trials: int
    space: str
    builder: Builder | None  # None: nothing is measured
    runner: Runner | None

    def search(self, workload: str, strategy: str, seed: int) -> list[float]:
        """Seconds of the best after each trial."""
        runner = RecordedRunner(self.records, self.runner)
        ms.tune_tir(
            create_te_workload(workload, 0),
            self.target,
            None,
            self.trials,
            builder=RecordedBuilder(self.records, self.builder),
            runner=runner,
            strategy=SearchStrategy.create(strategy),
            space=self.space,
            database="memory",
            seed=seed,
            console=False,
            check=False,
        )
        # A search that came to the end of its space does not get better.
        times = (runner.times + [NEVER] * self.trials)[: self.trials]
        return list(np.minimum.accumulate(times))


class SavedCurves:
    """The best after each trial by workload, strategy and seed, in files of lines."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._path = paths[0] if paths else None
        self._known: dict[tuple[str, str, int], list[float]] = {}
        for path in paths:
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                workload, strategy, seed, steps = json.loads(line)
                self._known[workload, strategy, seed] = _from_steps(steps)

    def get(self, key: tuple[str, str, int]) -> list[float] | None:
        return self._known.get(key)

    def add(self, key: tuple[str, str, int], curve: list[float]) -> None:
        """Keep the curve of a search."""
        self._known[key] = curve
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*key, _as_steps(curve)]) + "\n")


def _as_steps(curve: list[float]) -> list[tuple[int, float | None]]:
    """The trials that changed the best, and the last one."""
    places = [n for n, best in enumerate(curve) if n == 0 or best != curve[n - 1]]
    bests = [None if curve[n] == NEVER else curve[n] for n in places]
    return [*zip(places, bests, strict=True), (len(curve), None)]


def _from_steps(steps: list[tuple[int, float | None]]) -> list[float]:
    curve: list[float] = []
    for (place, best), (following, _) in itertools.pairwise(steps):
        curve += [NEVER if best is None else best] * (following - place)
    return curve


Curves = dict[str, np.ndarray]  # by strategy: workloads x seeds x trials


def curves_of(setting: Setting, saved: SavedCurves, options: argparse.Namespace) -> Curves:
    """All searches, one after the other; those of a seed for all workloads and strategies first."""
    seeds = range(1, options.seeds + 1)
    for seed, workload, name in itertools.product(seeds, options.only, options.strategies):
        if saved.get((workload, name, seed)) is None:
            start = time.perf_counter()
            curve = setting.search(workload, name, seed)
            saved.add((workload, name, seed), curve)
            print(f"{workload} {name:18} seed {seed} {curve[-1] * 1e6:8.2f} us, "
                  f"{time.perf_counter() - start:.1f} s, "
                  f"{len(setting.records)} programs known", flush=True)  # fmt: skip
    return {
        name: np.array(
            [[saved.get((workload, name, seed)) for seed in seeds] for workload in options.only]
        )
        for name in options.strategies
    }


def add_rows(report: Report, curves: Curves) -> None:
    """The default against each other strategy: geometric means of the best after some trials."""
    trials = next(iter(curves.values())).shape[-1]
    for mark in [mark for mark in MARKS if mark <= trials]:
        ours = _mean(curves[DEFAULT], mark)
        for name in curves:
            if name != DEFAULT:
                theirs = _mean(curves[name], mark)
                low, high = _ratios(curves[DEFAULT], curves[name], mark)
                note = f"95%: {low:.3f} to {high:.3f}"
                report.add(Row(f"best_after_{mark}", ours * 1e6, theirs * 1e6, name, "us", note))


def _mean(curve: np.ndarray, mark: int) -> float:
    return float(np.exp(np.log(curve[:, :, mark - 1]).mean()))


def _ratios(ours: np.ndarray, theirs: np.ndarray, mark: int) -> tuple[float, float]:
    """Ends of the interval in which the ratio of two means lies when seeds are drawn again."""
    drawn = [_means_of_drawn_seeds(curve, mark, seed) for seed, curve in enumerate((ours, theirs))]
    low, high = np.percentile(np.exp(drawn[0] - drawn[1]), (2.5, 97.5))
    return float(low), float(high)


def _means_of_drawn_seeds(curve: np.ndarray, mark: int, seed: int) -> np.ndarray:
    logs = np.log(curve[:, :, mark - 1])
    picks = np.random.default_rng(seed).integers(logs.shape[1], size=(DRAWS, *logs.shape))
    return np.take_along_axis(logs[None], picks, axis=2).mean(axis=(1, 2))


def shares_of(curves: Curves) -> Iterator[tuple[str, np.ndarray]]:
    """By strategy: for each seed and trial, the speed as a share of the best, over workloads."""
    best = np.min([curve.min(axis=(1, 2)) for curve in curves.values()], axis=0)
    for name, curve in curves.items():
        yield name, np.exp(np.log(best[:, None, None] / curve).mean(axis=0))


_COLOURS = (
    "#0b62a4", "#d1495b", "#edae49", "#66a182", "#7b4b94", "#8d96a3", "#2e4057", "#c97b84",
    "#4d9078", "#b5651d", "#5c8001", "#a63a79",
)  # fmt: skip


def plot_of(curves: Curves) -> str:
    """One plot of all strategies, as a page that needs nothing else."""
    shares = dict(shares_of(curves))
    trials = next(iter(shares.values())).shape[-1]
    first = min(FIRST_SHOWN, trials - 1)
    shown = {name: share[:, first - 1 :] for name, share in shares.items()}
    lowest = min(float(share.min()) for share in shown.values())
    plot = Plot(
        Axis("trials", first, trials, log=True),
        Axis("share of the best speed", lowest - 0.02, 1.0),
        "best after each trial",
    )
    places = range(first, trials + 1)
    styles, names = [], []
    for number, (name, share) in enumerate(shown.items()):
        low, high = np.percentile(share, (10, 90), axis=0)
        there, back = zip(places, low, strict=True), zip(places, high, strict=True)
        plot.line([*there, *reversed(list(back))], f"band s{number}")
        plot.line(list(zip(places, share.mean(axis=0), strict=True)), f"line s{number}")
        colour = _COLOURS[number % len(_COLOURS)]
        styles.append(f".s{number} {{ --colour: {colour} }}")
        names.append(f'<li><span style="background:{colour}"></span>{name}</li>')
    return _PAGE.format(styles="\n".join(styles), plot=plot.svg(), names="".join(names))


_PAGE = """<!doctype html><meta charset="utf-8"><title>Search quality</title>
<style>
body {{ font: 14px sans-serif; max-width: 60em; margin: 2em auto }}
svg text {{ font-size: 11px }} .grid {{ stroke: #ddd }}
.tick.x, .label.x {{ text-anchor: middle }} .tick.y {{ text-anchor: end }}
.line {{ fill: none; stroke: var(--colour); stroke-width: 2 }}
.band {{ fill: var(--colour); opacity: .12; stroke: none }}
ul {{ columns: 3; list-style: none }} li span {{ display: inline-block; width: 1em; height: 1em;
margin-right: .5em }}
{styles}
</style>
<h1>Best after each trial</h1>{plot}<ul>{names}</ul>
"""


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=Path, help="file of measurements, kept and added to")
    parser.add_argument("--curves", type=Path, nargs="+", default=(), metavar="FILE")
    parser.add_argument("--replay", action="store_true", help="measure nothing")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--space", default="tilewright")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=WORKLOADS, metavar="WORKLOAD")
    parser.add_argument("--strategies", nargs="+", default=(DEFAULT, *RIVALS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    """Print a row a strategy and number of trials."""
    options = parse()
    measuring = (None, None) if options.replay else (LocalBuilder(), LocalRunner())
    records = Records(options.records)
    setting = Setting(records, options.target, options.trials, options.space, *measuring)
    report = Report(f"search quality, space {options.space}, {options.seeds} seeds")
    curves = curves_of(setting, SavedCurves(options.curves), options)
    print(HEADER)
    add_rows(report, curves)
    if options.plot is not None:
        options.plot.write_text(plot_of(curves), encoding="utf-8")
        print(f"plot in {options.plot}")
    finish(report, options)


if __name__ == "__main__":
    main()
