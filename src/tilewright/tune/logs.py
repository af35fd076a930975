"""Loggers of a tuning run: console and a file for the run, a file of its own for each task."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import TuneError
from tilewright.support.folders import make_folder

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
        _add(logger, _file(folder / f"{ROOT}.task_scheduler.log"))
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
        label = f"{ROOT}.task_{number:0{digits}d}_{_file_name(name)}"
        logger = logging.getLogger(label)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        _drop_handlers(logger)
        if work_dir is None:
            logger.addHandler(logging.NullHandler())
        else:
            _add(logger, _file(log_folder(work_dir) / f"{label}.log"))
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


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:80]


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


def _file(path: Path) -> logging.Handler:
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
