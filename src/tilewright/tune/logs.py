"""Logs of a tuning run: the console and a file for the run, a file of its own for each task.

Tables have the layout that logs of MetaSchedule have.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tilewright.errors import TuneError
from tilewright.records import BuilderResult, Candidates, RunnerResults
from tilewright.support.files import make_folder
from tilewright.tune.task import TaskRecord

ROOT = "tilewright.tune"
FORMAT = logging.Formatter("%(asctime)s [%(levelname)s] %(message)s", "%Y-%m-%d %H:%M:%S")


def run_logger(work_dir: str | Path | None, *, console: bool = True) -> logging.Logger:
    """The logger of a run: the console and, with a directory, a file below it."""
    logger = logging.getLogger(ROOT)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    _drop_handlers(logger)
    logger.propagate = False
    # Without any handler Python would print warnings itself.
    _add(logger, logging.StreamHandler(sys.stdout) if console else logging.NullHandler())
    if work_dir is not None:
        folder = log_folder(work_dir)
        _add(logger, log_file(folder / f"{ROOT}.task_scheduler.log"))
        logger.info("Logging directory: %s", folder)
    if not logger.isEnabledFor(logging.INFO):
        level = logging.getLevelName(logger.level)
        logger.warning("the level of the logger %s is %s: progress is not logged", ROOT, level)
    return logger


def task_loggers(work_dir: str | Path | None, task_names: Sequence[str]) -> list[logging.Logger]:
    """One logger a task, into a file of its own; without a directory they say nothing."""
    digits = len(str(max(0, len(task_names) - 1)))
    loggers = []
    for number, name in enumerate(task_names):
        fit = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:80]
        label = f"{ROOT}.task_{number:0{digits}d}_{fit}"
        logger = logging.getLogger(label)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        _drop_handlers(logger)
        if work_dir is None:
            logger.addHandler(logging.NullHandler())
        else:
            _add(logger, log_file(log_folder(work_dir) / f"{label}.log"))
        loggers.append(logger)
    return loggers


def log_folder(work_dir: str | Path) -> Path:
    """Where the logs of a run lie."""
    return make_folder(Path(work_dir) / "logs")


def close_loggers(loggers: Sequence[logging.Logger]) -> None:
    """Close the files of loggers, which are ordinary ones from then on."""
    for logger in loggers:
        _drop_handlers(logger)
        logger.propagate = True


class _LogFile(logging.FileHandler):
    """A log that ends with one line to stderr if it cannot be written any more."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self.setLevel(logging.CRITICAL + 1)
        print(f"the log {self.baseFilename} ends here: {error.strerror}", file=sys.stderr)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written before
            super().close()


def log_file(path: Path) -> logging.Handler:
    """A file that lines are added to."""
    try:
        return _LogFile(path, encoding="utf-8")
    except OSError as error:
        raise TuneError(f"cannot write the log {path}: {error.strerror}") from error


def _add(logger: logging.Logger, handler: logging.Handler) -> None:
    handler.setFormatter(FORMAT)
    logger.addHandler(handler)


def _drop_handlers(logger: logging.Logger) -> None:
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


# --- the lines of a task ------------------------------------------------------------------------


def log_space(task: TaskRecord) -> None:
    """The program and the sketches of a task."""
    logger = task.ctx.logger
    logger.info("%s\n%s", task.ctx.task_name, task.ctx.mod)
    logger.info("Total %d design space(s) generated", len(task.search.sketches))
    for number, sketch in enumerate(task.search.sketches):
        logger.info("Design space #%d:\n%s\n%s", number, sketch.mod, sketch.trace)


def log_trials(
    task_id: int,
    task: TaskRecord,
    candidates: Candidates,
    built: Sequence[BuilderResult],
    results: RunnerResults,
) -> None:
    """The trials of a round that are not counted yet, each with its trace."""
    best = task.gflops or 0.0
    for place in range(task.counts.restored, len(results)):
        candidate, result = candidates[place], results[place]
        number = task.round.first_trial + place + 1
        head = f"[Task #{task_id}: {task.ctx.task_name}] Trial #{number}:"
        if result.run_secs:
            secs = median(result.run_secs)
            speed = task.flop / secs / 1e9
            best = max(best, speed)
            known = " (known already)" if place in task.round.reused else ""
            task.ctx.logger.info(
                "%s GFLOPs: %.4f. Time: %.4f us. Best GFLOPs: %.4f%s\n%s",
                head, speed, secs * 1e6, best, known, candidate.sch.trace,
            )  # fmt: skip
        else:
            what = "running" if built[place].error_msg is None else "building"
            task.ctx.logger.info(
                "%s Error in %s:\n%s\n%s\n%s",
                head, what, result.error_msg, candidate.sch.mod, candidate.sch.trace,
            )  # fmt: skip


COLUMNS = (
    "ID",
    "Name",
    "FLOP",
    "Weight",
    "Speed (GFLOPS)",
    "Latency (us)",
    "Weighted Latency (us)",
    "Trials",
    "Done",
)


def statistics_table(tasks: Sequence[TaskRecord]) -> str:
    """One row a task, then the totals of those that have a result."""
    rows: list[list[object]] = []
    trials, latency = 0, 0.0
    for number, task in enumerate(tasks):
        micros = None if task.best_secs is None else task.best_secs * 1e6
        speed: list[object] = ["N/A", "N/A", "N/A"]
        if micros is not None:
            speed = [task.flop / micros / 1e3, micros, micros * task.task_weight]
            trials += task.trials
            latency += micros * task.task_weight
        done = "Y" if task.is_terminated else ""
        fixed: list[object] = [number, task.ctx.task_name, int(task.flop), int(task.task_weight)]
        rows.append([*fixed, *speed, task.trials, done])
    totals = f"Total trials: {trials}\nTotal latency (us): {latency:g}"
    return f"{text_table(COLUMNS, rows)}\n{totals}"


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Right-aligned cells between bars; fractions with four decimals."""
    lines = [list(header)]
    for row in rows:
        lines.append([f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row])
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = ["|".join(f" {c:>{w}} " for c, w in zip(line, widths, strict=True)) for line in lines]
    dashes = "-" * (sum(widths) + 3 * len(widths) - 1)
    return "\n".join([texts[0], dashes, *texts[1:]])
