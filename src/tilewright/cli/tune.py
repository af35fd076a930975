"""`tilewright tune`: search, show what happens, leave the best schedules in a database."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from tilewright.cli.arguments import work_of
from tilewright.cli.console import make_console, print_json
from tilewright.cli.group import INTERRUPTED
from tilewright.cli.live_table import Display, make_display
from tilewright.cli.models import is_model
from tilewright.cli.options import (
    database_line,
    database_url,
    refuse_model_options,
    runnable_target,
    writing,
)
from tilewright.cli.programs import Program, all_programs, open_all
from tilewright.cli.progress import Progress
from tilewright.cli.run_limits import RunLimits, TuneCommand, limits_of
from tilewright.database import Database
from tilewright.database.record_ids import record_id
from tilewright.database.similarity import describe
from tilewright.errors import MachineError
from tilewright.ir import IRModule
from tilewright.measure.side_by_side import measure_alone
from tilewright.records import ZERO_SEARCH
from tilewright.report.packing import packed_before, packed_by, packing_note
from tilewright.report.roofline import MeasuredPeaks, flop_of, roofline_of
from tilewright.report.units import duration, gflops, percent, seconds
from tilewright.space.generators import create_space_generator
from tilewright.space.layout_free import with_bound_weights
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.tune.api import tune_tir
from tilewright.tune.checks import TuningRefusal, check_can_be_tuned, why_not_tuned
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule
from tilewright.tune.profiler import Profiler

NOTHING_WORKED = 1


def run(options: TuneCommand) -> int:
    """Tune; the exit status is 0 if every task has a working schedule."""
    opened = open_all(options.programs)
    if any(map(is_model, opened)):
        status: int = work_of("model_tune").run(options, opened)
        return status
    refuse_model_options([*options.model.given, *(["--output"] if options.output else [])])
    programs = all_programs(opened)
    if options.bound:
        programs = [replace(p, func=with_bound_weights(p.mod)["main"]) for p in programs]
    check_can_be_tuned(IRModule({program.name: program.func for program in programs}))
    refusals = {program.name: why_not_tuned(program.name, program.func) for program in programs}
    tunable = [program for program in programs if refusals[program.name] is None]
    limits = limits_of(options, len(tunable))
    target = runnable_target(options.target) if options.on is None else Target(options.target)
    create_space_generator(options.space)  # raises before anything is written
    console = make_console()
    _tell(list(filter(None, refusals.values())), console, as_json=options.as_json)
    if not tunable or limits.trials == 0:
        options.interrupt.deliver()
        return _without_search(tunable, target, console, as_json=options.as_json)
    with writing(options.db) as database:
        summary = _Search(options, tunable, target, limits, database, console).run()
    if options.as_json:
        print_json(summary.as_json())
    else:
        console.print("\n".join(summary.lines()))
    if summary.interrupted:
        return INTERRUPTED
    if summary.fault is not None:
        raise summary.fault
    worked = all(result.secs is not None for result in summary.results)
    refused = any(refusal is not None and not refusal.is_symbolic for refusal in refusals.values())
    return 0 if worked and not refused else NOTHING_WORKED


def _tell(refusals: Sequence[TuningRefusal], console: Console, *, as_json: bool) -> None:
    """Say why programs are left out."""
    for refusal in refusals:
        if as_json:
            print_json({"event": "left_out", "reason": refusal.reason})
        else:
            console.print(refusal.reason)


def _without_search(
    programs: Sequence[Program], target: Target, console: Console, *, as_json: bool
) -> int:
    """Choose, compile and time a schedule for each program; nothing is kept."""
    for program in programs:
        start = time.perf_counter()
        sch = default_schedule(program.func, target)
        chosen = time.perf_counter() - start
        secs = measure_alone(sch.mod, target)
        limit = roofline_of(program.mod, target, MeasuredPeaks(target))
        facts: dict[str, Any] = {
            "event": "result",
            "task": program.name,
            "shape": describe(program.mod),
            "best_secs": secs,
            "gflops": flop_of(program.mod) / secs / 1e9,
            "share_of_roofline": None if limit is None else limit.share(secs),
            "chosen_in_secs": chosen,
            "packed": packed_before(sch.mod),
            "script": sch.mod.script(),
        }
        if as_json:
            print_json(facts)
            continue
        speed = f"{gflops(flop_of(program.mod), secs)} GFLOPS"
        share = f"{percent(facts['share_of_roofline'])} of roofline"
        note = packing_note(facts["packed"])
        console.print(
            f"{program.name} {facts['shape']}: {seconds(secs)}, {speed}, {share}, "
            f"calculated in {seconds(chosen)} without a search{note and f'; {note}'}",
        )
    return 0


@dataclass(frozen=True)
class _Search:
    """One search for schedules, shown while it runs."""

    options: TuneCommand
    programs: Sequence[Program]
    target: Target
    limits: RunLimits
    database: Database
    console: Console

    def run(self) -> Summary:
        url, as_json = database_url(self.options.db), self.options.as_json
        if not as_json:
            self.console.print(database_line(url, self.database))
        peaks = MeasuredPeaks.stored(self.database, self.target)
        display = make_display(self.console, peaks, as_json=as_json)
        interrupted, fault = False, None
        try:
            interrupted = self._tune(display)
            peaks.measure_again()
        except MachineError as error:
            fault = error
        results = _results(self.programs, peaks, self.database, display.progress)
        if fault is None:
            peaks.save(self.database)
        return Summary(url, interrupted, display.progress, results, fault)

    def _tune(self, display: Display) -> bool:
        """Run the search; True if the user ended it."""
        options, profiler = self.options, Profiler()
        try:
            with options.members(self.target) as members, display, profiler:
                tune_tir(
                    IRModule({program.name: program.func for program in self.programs}),
                    self.target,
                    database=self.database,
                    budget_secs=self.limits.budget_secs,
                    observers=[display, options.deliver],
                    **options.search_options(self.limits),
                    **members,
                )
        except KeyboardInterrupt:
            return True
        finally:
            if options.profile and not options.as_json:
                self.console.print(profiler.table())
        return False


# --- the end ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskResult:
    """What a database knows of a program after a run."""

    name: str
    shape: str
    flop: float
    secs: float | None
    share: float | None
    record: str | None
    failures: Mapping[str, int]
    last_error: str | None
    packed: Sequence[str]  # weights whose packing is not part of the time
    notes: Sequence[str] = ()  # what to know of the program itself
    without_search: bool = False  # it was interrupted before anything was measured

    def line(self) -> str:
        """The result for people."""
        head = f"{self.name} {self.shape}"
        if self.secs is None:
            causes = ", ".join(f"{number} {cause}" for cause, number in self.failures.items())
            error = f"; last error: {self.last_error}" if self.last_error else ""
            what = f"no candidate worked ({causes})" if causes else "nothing was measured"
            return f"{head}: {what}{error}"
        speed = f"{gflops(self.flop, self.secs)} GFLOPS, {percent(self.share)} of roofline"
        note = packing_note(self.packed)
        found = ", found without a search" if self.without_search else ""
        line = f"{head}: {seconds(self.secs)}, {speed}, record {self.record}{found}"
        return f"{line}{note and f'; {note}'}"

    def as_json(self) -> dict[str, object]:
        """The result as plain values."""
        return {
            "task": self.name,
            "shape": self.shape,
            "best_secs": self.secs,
            "gflops": None if not self.secs else self.flop / self.secs / 1e9,
            "share_of_roofline": self.share,
            "record": self.record,
            "failures": dict(self.failures),
            "packed": list(self.packed),
            "notes": list(self.notes),
        }


def _results(
    programs: Sequence[Program], peaks: MeasuredPeaks, database: Database, progress: Progress
) -> list[TaskResult]:
    target = peaks.target
    tasks = {state.name: state.task for state in progress.tasks}
    results = []
    for program in programs:
        mod = normalize_mod(program.func)
        task = tasks.get(program.name)
        record = database.query_tuning_record(mod, target, "main")
        secs = None if record is None else record.mean_secs
        limit = roofline_of(mod, target, peaks)
        measured = task is not None and task.trials > 0
        notes: Sequence[str] = (
            () if task is None else task.notes
        )  # if it ran nothing: those of an earlier run
        if not notes and record is not None:
            notes = record.notes
        results.append(
            TaskResult(
                program.name,
                describe(mod),
                flop_of(mod),
                secs,
                None if limit is None else limit.share(secs),
                None if record is None else record_id(record),
                {} if task is None else task.counts.failures,
                None if task is None else task.counts.last_error,
                () if record is None else packed_by(record),
                notes,
                not measured and record is not None and record.baseline == ZERO_SEARCH,
            )
        )
    return results


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    database: str
    interrupted: bool
    progress: Progress
    results: Sequence[TaskResult]
    fault: MachineError | None = None  # what the machine lacks to go on

    def lines(self) -> list[str]:
        """For people: results, what was spent, where it is, how to go on."""
        results = [
            line
            for result in self.results
            for line in (result.line(), *(f"{result.name}: {note}" for note in result.notes))
        ]
        is_done = not self.interrupted and self.fault is None
        ended = (
            "done in" if is_done else f"{'interrupted' if self.interrupted else 'stopped'} after"
        )
        spent = f"{ended} {duration(self.progress.elapsed)}: {self._trials()}"
        again = "" if is_done else "; the same command continues from here"
        return [*results, spent, f"all records are in {self.database}{again}"]

    def _trials(self) -> str:
        trials, reused = self.progress.trials, self.progress.reused
        if trials and reused == trials:
            return f"all {counted(trials, 'trial')} were known already, nothing was measured again"
        known = f", {reused} of them known already" if reused else ""
        return f"{counted(trials, 'trial')}{known}"

    def as_json(self) -> dict[str, object]:
        """As plain values."""
        return {
            "event": "result",
            "reason": "interrupted" if self.interrupted else self.progress.reason,
            "database": self.database,
            "elapsed_secs": self.progress.elapsed,
            "trials": self.progress.trials,
            "reused": self.progress.reused,
            "tasks": [result.as_json() for result in self.results],
        }
