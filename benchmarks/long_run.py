"""A thousand trials on one task: memory and time per trial, every hundred trials.

    python benchmarks/long_run.py [TASK ...] [--trials N] [--space NAME] [--json FILE]

A task is a workload with an index (`GMM_0`). Memory is what is resident: in this process, which
searches, and in its workers, which build and run. In the rows of memory, `ours` is the most after
the first 200 trials and `rival` the most until then (one worker or another is always being
replaced, so no single moment counts): flat is a ratio of at most 1.1. In those of
seconds a trial, `ours` is the second half of the run and `rival` the first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import HEADER, Report, Row, finish

from tilewright import meta_schedule as ms
from tilewright.target import Target
from tilewright.tune.events import Event, RoundMeasured, TuningStarted
from tilewright.workloads import CONFIGS, create_te_workload

STEP = 100
STEADY = 200  # trials after which memory must stay as it is
MIB = float(1 << 20)


def resident_mib(pid: int) -> float:
    """What a process holds in memory; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def children_of(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(word) for word in listed.read_text().split()]
        except OSError:  # the thread has ended
            continue
        for child in direct:
            found += [child, *children_of(child)]
    return found


@dataclass(frozen=True)
class Sample:
    """Where a run stood after some round."""

    trials: int
    secs: float  # since the beginning
    tuner_mib: float
    workers_mib: float
    largest_worker_mib: float


@dataclass
class Watch:
    """Looks at memory after the rounds in which another hundred trials were completed."""

    samples: list[Sample] = field(default_factory=list)
    trials: int = 0
    start: float = 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case TuningStarted():
                self.start = time.perf_counter()
                self.take()
            case RoundMeasured(trials=new):
                before, self.trials = self.trials, self.trials + new
                if before // STEP < self.trials // STEP:
                    self.take()

    def take(self) -> None:
        """Note where the run stands, and show it."""
        workers = [resident_mib(pid) for pid in children_of(os.getpid())]
        sample = Sample(
            self.trials,
            time.perf_counter() - self.start,
            resident_mib(os.getpid()),
            sum(workers),
            max(workers, default=0.0),
        )
        self.samples.append(sample)
        print(self._line(sample), flush=True)

    def _line(self, sample: Sample) -> str:
        memory = f"{sample.tuner_mib:>10.0f} {sample.workers_mib:>12.0f}"
        rate = f"{self.secs_per_trial(len(self.samples) - 1):>12.3f}" if sample.trials else ""
        return f"{sample.trials:>8} {memory} {sample.largest_worker_mib:>15.0f} {rate}"

    def secs_per_trial(self, number: int) -> float:
        """Seconds of a trial between a sample and the one before it."""
        before, after = self.samples[number - 1], self.samples[number]
        return (after.secs - before.secs) / (after.trials - before.trials)

    def since(self, trials: int) -> list[Sample]:
        """What was noted after so many trials."""
        return [sample for sample in self.samples if sample.trials >= trials]


PRINTED = (
    f"{'trials':>8} {'tuner MiB':>10} {'workers MiB':>12} {'largest worker':>15} {'s/trial':>12}"
)


def tune(task: str, trials: int, space: str, folder: str) -> Watch:
    """Tune a task in a database of its own."""
    name, _, index = task.rpartition("_")
    watch = Watch()
    print(f"{task}, space {space}\n{PRINTED}", flush=True)
    database = ms.tune_tir(
        create_te_workload(name, int(index)),
        Target("llvm"),
        folder,
        trials,
        space=space,
        seed=1,
        observers=[watch],
        console=False,
    )
    database.close()
    return watch


def add_rows(report: Report, task: str, watch: Watch, trials: int) -> None:
    """The figures of one run."""
    steady = watch.since(STEADY)
    if len(steady) < 2:
        report.skip(task, f"its space ended after {watch.trials} of {trials} trials")
        return
    note = f"of {watch.trials} trials"
    memory = {"tuner": "tuner_mib", "workers": "workers_mib", "worker": "largest_worker_mib"}
    for name, attribute in memory.items():
        later = [getattr(sample, attribute) for sample in steady[1:]]
        early = [getattr(s, attribute) for s in watch.samples if s.trials <= steady[0].trials]
        row = f"{name}_memory_{task}"
        report.add(Row(row, max(later), max(early), "the first 200", "MiB", note))
    middle = min(watch.samples, key=lambda sample: abs(sample.trials - watch.trials / 2))
    halves = [(watch.samples[0], middle), (middle, watch.samples[-1])]
    first, second = ((b.secs - a.secs) / (b.trials - a.trials) for a, b in halves)
    report.add(Row(f"trial_secs_{task}", second * 1e3, first * 1e3, "first half", "ms", note))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of this benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=["GMM_0"])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--space", default="tilewright", help="the rules: tilewright, llvm, ...")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    options = parser.parse_args(argv)
    known = [f"{name}_{n}" for name, (_, shapes) in CONFIGS.items() for n in range(len(shapes))]
    unknown = [task for task in options.tasks if task not in known]
    if unknown:
        parser.error(f"there is no task {unknown[0]}; there are {', '.join(known)}")
    return options


def main() -> None:
    """Tune, show, and write the result."""
    options = parse()
    report = Report("long runs")
    watches = {}
    for task in options.tasks:
        with tempfile.TemporaryDirectory() as folder:
            watches[task] = tune(task, options.trials, options.space, folder)
    print(HEADER)
    for task, watch in watches.items():
        add_rows(report, task, watch, options.trials)
    finish(report, options)


if __name__ == "__main__":
    main()
