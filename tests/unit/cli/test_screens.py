"""Commands on a terminal: no codes where none are wanted, readable names where it is narrow."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from tilewright.cli.tables import make_table

PROGRAM = """
from tilewright.testing.te_workload import matmul

def a_product_with_a_rather_long_name():
    return matmul(16, 16, 16)
"""
SHOW = """
from tilewright import te, tir
from tilewright.testing.te_workload import matmul
func = te.create_prim_func(matmul(4, 4, 4))
func.show()
tir.Schedule(func).show()
"""
COMMAND = ("-m", "tilewright")


def on_terminal(
    arguments: Sequence[str], folder: Path, columns: int = 80, **environ: str
) -> tuple[str, int]:
    """What a Python process prints on a terminal, and how it ends."""
    child, screen = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update({"TERM": "xterm-256color", "COLUMNS": str(columns), **environ})
        os.execv(sys.executable, [sys.executable, *arguments])
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = b""
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError:  # the other side is closed
            break
        shown += part
        if not part:
            break
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(screen)
    return shown.decode(), status


@pytest.mark.parametrize(
    "arguments",
    [
        (*COMMAND, "tune", "program.py:a_product_with_a_rather_long_name", "--trials", "2"),
        (*COMMAND, "doctor"),
        (*COMMAND, "tune", "--help"),
        (*COMMAND, "tune"),
        ("-c", SHOW),
    ],
    ids=["tune", "doctor", "help", "usage", "show"],
)
def test_no_color_removes_every_code(arguments: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    shown, status = on_terminal(arguments, tmp_path, NO_COLOR="1")
    assert status == (2 if arguments == (*COMMAND, "tune") else 0), shown
    assert len(shown) > 40
    assert "\x1b" not in shown


def test_there_are_codes_otherwise(tmp_path: Path) -> None:
    assert "\x1b[" in on_terminal(("-c", SHOW), tmp_path)[0]


@pytest.mark.parametrize(
    "columns",
    [40, pytest.param(50, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.slow)],
)
def test_names_stay_readable(columns: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    name = "a_product_with_a_rather_long_name"
    program = f"program.py:{name}"
    shown, status = on_terminal((*COMMAND, "tune", program, "--trials", "2"), tmp_path, columns)
    assert status == 0, shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "…" not in plain
    beginning = next(line for line in plain.splitlines() if line.startswith(name[:20]))
    assert re.search(r"\d [µnm]?s|- ", beginning)  # its time stands beside it


HEADER = ("task", "target", "records", "best", "GFLOPS", "of roofline", "record")
ROWS = [("a_product_with_a_rather_long_name", "llvm znver4", "12", "4.8 µs", "107", "9 %", "ab12")]


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (120, HEADER),
        (80, ("task", "target", "records", "best", "GFLOPS", "of roofline")),
        (60, ("task", "best", "GFLOPS", "of roofline")),
        (40, ("task", "best")),
        (10, ("task", "best")),
    ],
)
def test_columns_go_before_names_do(width: int, kept: Sequence[str]) -> None:
    table = make_table(HEADER, ROWS, width)
    assert tuple(str(column.header) for column in table.columns) == tuple(kept)
    console = Console(width=max(width, 30), force_terminal=False)
    with console.capture() as shown:
        console.print(table)
    letters = "".join(re.findall(r"^[a-z_]+", shown.get(), re.M)).removeprefix("task")
    assert letters == ROWS[0][0]
