"""`tilewright tune MODEL`: a faster model, checked against the original, in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from tilewright.cli.console import make_console, print_json
from tilewright.cli.group import INTERRUPTED
from tilewright.cli.model_display import ModelProgress, make_model_display
from tilewright.cli.models import SAVED, Model, check_writable, model_of, save
from tilewright.cli.options import database_line, database_url, runnable_target, writing
from tilewright.cli.originals import difference, original_of
from tilewright.cli.programs import NamedValue
from tilewright.cli.run_limits import RunLimits, TuneCommand, limits_of
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.graph.graph import Array
from tilewright.model import CompiledModel, served_by
from tilewright.model.api import tuning_of
from tilewright.model.compiled import results_of
from tilewright.model.finals import ModelFinal, random_inputs
from tilewright.model.gpu_api import GpuTuning
from tilewright.model.service import ServiceReport
from tilewright.model.tasks import ExtractedTask
from tilewright.model.tuning import ModelTuning
from tilewright.report.model_notes import keep_final
from tilewright.report.roofline import MeasuredPeaks
from tilewright.report.units import duration, seconds
from tilewright.space.generators import create_space_generator
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.tune.profiler import Profiler

WRONG_RESULT = 1
_LEAST_SHARE = 0.1  # of the budget is for the search, however long the beginning took
_SHORT_FINAL = 0.5  # seconds that who pressed Ctrl-C waits for a comparison


def run(options: TuneCommand, opened: Sequence[NamedValue]) -> int:
    """Tune, check, save; the exit status is 0 if the results agree with the original's."""
    started = time.monotonic()
    if len(opened) != 1:
        raise TuneError(f"a model is tuned alone; got {len(opened)} names")
    if options.bound:
        raise TuneError("--bound is for programs; the weights of a model are packed in any case")
    model = model_of(opened[0], options.model)
    create_space_generator(options.space)  # raises before anything is written
    target = runnable_target(options.target)
    path = options.output or Path(f"{model.name}{SAVED}")
    check_writable(path)
    tuning = tuning_of(model.graph, target, **options.model.of_compiler)
    limits = limits_of(options, len(tuning.tasks))
    job = _Job(options, model, target, path, make_console(), tuning, started)
    job.tell(_headline(model, tuning.tasks))
    if model.unsupported:
        job.tell(model.unsupported)
    if limits.trials == 0 or not tuning.tasks:
        options.interrupt.deliver()
        return job.finish(None, interrupted=False)
    with writing(options.db) as database:
        return _tuned(job, database, limits)


def _headline(model: Model, tasks: Sequence[ExtractedTask]) -> str:
    flop = sum(task.weight * task.flop for task in tasks)
    kernels = sum(task.weight for task in tasks)
    return (
        f"{model.name}: {counted(len(model.graph.nodes), 'operator')}, "
        f"{counted(kernels, 'kernel')} in {counted(len(tasks), 'task')}, {flop / 1e9:.3g} GFLOP"
    )


def _tuned(job: _Job, database: Database, limits: RunLimits) -> int:
    url = database_url(job.options.db)
    job.tell(database_line(url, database))
    peaks = MeasuredPeaks.stored(database, job.target)
    display = make_model_display(job.console, peaks, as_json=job.options.as_json)
    interrupted, profiler = False, Profiler()
    try:
        with job.options.members(job.target) as members, display, profiler:
            job.search(database, limits, [display, job.options.deliver], members)
    except KeyboardInterrupt:
        interrupted = True
        job.compare(database)
    peaks.save(database)
    assert isinstance(display.progress, ModelProgress)
    job.progress = display.progress
    if job.final is not None:
        keep_final(database, job.model.name, job.target, job.final)
    status = job.finish(database, interrupted=interrupted)
    if job.options.profile:
        job.tell(profiler.table())
    again = "; the same command continues from here" if interrupted else ""
    job.tell(f"all records are in {url}{again}")
    return INTERRUPTED if interrupted else status


def _tiled(report: ServiceReport) -> list[str]:
    """What Winograd's tiles add to rounding errors, in one line."""
    if not report.tiled:
        return []
    worst = max(report.tiled, key=lambda tiled: tiled.errors[0])
    own, direct = worst.errors
    return [
        f"{counted(len(report.tiled), 'convolution')} by Winograd's tiles: errors up to {own:.1e} "
        f"of the largest result ({worst.source}, {direct:.1e} if direct); --no-winograd avoids them"
    ]


@dataclass
class _Job:
    """One model that is tuned."""

    options: TuneCommand
    model: Model
    target: Target
    path: Path
    console: Console
    tuning: ModelTuning | GpuTuning
    started: float  # when the command was
    expected: tuple[str, Sequence[Array]] | None = None  # whose results, and which
    final: ModelFinal | None = None
    progress: ModelProgress | None = None

    def tell(self, line: str) -> None:
        """A line for people."""
        if not self.options.as_json:
            self.console.print(line)

    def search(
        self,
        database: Database,
        limits: RunLimits,
        observers: Sequence[Any],
        members: Mapping[str, Any],
    ) -> None:
        """Tune with the limits of the command; its budget is for all that it does."""
        budget = limits.budget_secs
        self._run_original()
        used = time.monotonic() - self.started
        self.tuning.tune(
            on_final=self._note_final,
            budget_secs=None if budget is None else max(budget - used, _LEAST_SHARE * budget),
            database=database,
            observers=observers,
            **self.options.search_options(limits),
            **members,
        )

    def compare(self, database: Database) -> None:
        """After Ctrl-C, too, no kernel may be slower in the model than the calculated one."""
        if isinstance(self.tuning, ModelTuning) and len(database):
            self.final = self.tuning.compare(database, _SHORT_FINAL)

    def _note_final(self, final: ModelFinal) -> None:
        self.final = final

    def finish(self, database: Database | None, *, interrupted: bool) -> int:
        """Compile with what is known, check against the original, save, and tell."""
        calculated = self.tuning.calculated
        executable = calculated if database is None else self.tuning.compile(database)
        checked_by, wrong = self._check(executable)
        if not wrong:
            save(executable, self.path)
        if self.options.as_json:
            print_json(self._as_json(executable, checked_by, wrong, interrupted))
        else:
            for line in self._lines(executable, checked_by, wrong, interrupted):
                self.tell(line)
        return WRONG_RESULT if wrong else 0

    def _check(self, executable: CompiledModel) -> tuple[str, str]:
        """Whom results were compared with, and in what they differ."""
        name, expected = self._run_original()
        return name, difference(expected, results_of(executable, random_inputs(self.model.graph)))

    def _run_original(self) -> tuple[str, Sequence[Array]]:
        """Whom results are compared with, and its results."""
        if self.expected is None:
            original = original_of(self.model, self.target)
            if original.note:
                self.tell(original.note)
            self.expected = original.name, original.run(random_inputs(self.model.graph))
        return self.expected

    def _lines(
        self, executable: CompiledModel, checked_by: str, wrong: str, interrupted: bool
    ) -> list[str]:
        lines = []
        if self.progress is not None:
            verb = "interrupted after" if interrupted else "done in"
            spent = duration(self.progress.elapsed)
            lines.append(f"{verb} {spent}: {counted(self.progress.trials, 'trial')}")
        if self.final is not None:
            before, now = self.final.calculated_secs, self.final.secs
            lines.append(
                f"model {seconds(now)}, {before / now:.2f}x faster than calculated "
                f"({seconds(before)}), both measured in the model"
            )
            if self.final.beaten:
                lines.append(f"calculated kernels stay for {', '.join(self.final.beaten)}")
        report = served_by(executable)
        lines += [report.summary(), *_tiled(report)]
        if wrong:
            return [*lines, f"error: results differ from those of {checked_by}: {wrong}; not saved"]
        return [*lines, f"results agree with those of {checked_by}", f"saved as {self.path}"]

    def _as_json(
        self, executable: CompiledModel, checked_by: str, wrong: str, interrupted: bool
    ) -> dict[str, object]:
        final, report = self.final, served_by(executable)
        return {
            "event": "result",
            "reason": "interrupted" if interrupted else "done",
            "model": self.model.name,
            "secs": None if final is None else final.secs,
            "calculated_secs": None if final is None else final.calculated_secs,
            "checked_by": checked_by,
            "difference": wrong or None,
            "saved_as": None if wrong else str(self.path),
            "winograd": [
                {
                    "source": tiled.source,
                    "tile": tiled.tile,
                    "error": tiled.errors[0],
                    "direct_error": tiled.errors[1],
                }
                for tiled in report.tiled
            ],
            "kernels": [
                {
                    "name": kernel.name,
                    "runs": kernel.runs,
                    "served_by": kernel.origin.match.value,
                    "record": kernel.origin.record_name or None,
                }
                for kernel in report.kernels
            ],
        }
