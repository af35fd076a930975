"""Where logs go: the console, a file for the run, a file for each task."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from tilewright.errors import TuneError
from tilewright.tune.logs import close_loggers, run_logger, task_loggers

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[(\w+)\] (.*)")


def lines(path: Path) -> list[tuple[str, str]]:
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    return [(match[1], match[2]) for match in found if match is not None]


def test_the_run_is_logged_to_console_and_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = run_logger(tmp_path)
    logger.info("a round is done")
    logger.debug("too much detail")
    close_loggers([logger])
    expected = [("INFO", f"Logging directory: {tmp_path / 'logs'}"), ("INFO", "a round is done")]
    assert lines(tmp_path / "logs" / "tilewright.tune.task_scheduler.log") == expected
    printed = [LINE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    assert [match[2] for match in printed if match] == [text for _, text in expected]


def test_a_quiet_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = run_logger(tmp_path, console=False)
    logger.info("a round is done")
    close_loggers([logger])
    assert capsys.readouterr().out == ""


def test_each_task_has_a_file_of_its_own(tmp_path: Path) -> None:
    loggers = task_loggers(tmp_path, ["conv 3x3/relu", *(f"matmul_{n}" for n in range(10))])
    for number, logger in enumerate(loggers):
        logger.debug("task %d", number)
    close_loggers(loggers)
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert len(names) == 11
    assert names[0] == "tilewright.tune.task_00_conv_3x3_relu.log"
    assert names[10] == "tilewright.tune.task_10_matmul_9.log"
    assert lines(tmp_path / "logs" / names[10]) == [("DEBUG", "task 10")]


def test_logs_are_appended_to(tmp_path: Path) -> None:
    for text in ("first", "second"):
        (logger,) = task_loggers(tmp_path, ["main"])
        logger.info(text)
        close_loggers([logger])
    found = lines(tmp_path / "logs" / "tilewright.tune.task_0_main.log")
    assert found == [("INFO", "first"), ("INFO", "second")]


def test_without_a_directory_tasks_are_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (logger,) = task_loggers(None, ["main"])
    logger.error("nobody hears this")
    close_loggers([logger])
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_a_level_that_hides_progress_is_pointed_out(tmp_path: Path) -> None:
    root = logging.getLogger("tilewright.tune")
    before = root.level
    root.setLevel(logging.WARNING)
    try:
        logger = run_logger(tmp_path, console=False)
        close_loggers([logger])
    finally:
        root.setLevel(before)
    assert lines(tmp_path / "logs" / "tilewright.tune.task_scheduler.log") == [
        ("WARNING", "the level of the logger tilewright.tune is WARNING: progress is not logged")
    ]


def test_after_a_run_the_logger_is_an_ordinary_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    close_loggers([run_logger(tmp_path, console=False)])
    logging.getLogger("tilewright.tune").warning("a word of warning")
    assert "a word of warning" in caplog.text


def test_logs_that_cannot_be_written(tmp_path: Path) -> None:
    label = tmp_path / "logs" / "tilewright.tune.task_scheduler.log"
    label.mkdir(parents=True)
    with pytest.raises(TuneError, match=f"cannot write the log {re.escape(str(label))}: Is a dir"):
        run_logger(tmp_path, console=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(TuneError, match=r"cannot make the directory .*file/logs: Not a directory"):
        run_logger(tmp_path / "file", console=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_log_on_a_full_disk_ends_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "tilewright.tune.task_scheduler.log"
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    logger = run_logger(tmp_path, console=False)
    logger.info("one")
    logger.error("another")
    close_loggers([logger])
    assert capsys.readouterr().err == f"the log {path} ends here: No space left on device\n"
