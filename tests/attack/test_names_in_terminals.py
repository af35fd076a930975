"""Names from files cannot steer the terminal that shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.app import app
from tilewright.cli.console import make_console
from tilewright.database import Problem, SQLiteDatabase, similarity
from tilewright.ir import IRModule, PrimFunc
from tilewright.support.text import printable
from tilewright.testing.conformance.database import a_record, matmul

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r"
ESCAPED = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r"


def test_escapes_are_shown_as_text() -> None:
    assert printable(HOSTILE) == ESCAPED
    assert printable("größer\n\udcff") == r"größer\n\udcff"
    assert printable("a\nb\tc", "\n") == "a\nb\\tc"


def test_consoles_write_text_only(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(f"{HOSTILE}\nnext", markup=False)
    assert capsys.readouterr().out == f"{ESCAPED}\nnext\n"


def hostile_module() -> IRModule:
    func: PrimFunc = matmul(4, 4, 4)["main"]
    return IRModule({HOSTILE: func.with_attr("global_symbol", HOSTILE)})


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "records.db"
    database = SQLiteDatabase(path)
    workload = database.commit_workload(hostile_module())
    extra = {"run": 1, "trial": 0, "task": HOSTILE}
    database.commit_tuning_record(a_record(workload, 1e-3, error_msg=HOSTILE, extra=extra))
    database.history.begin_run(HOSTILE, target=HOSTILE)
    database.close()
    return path


def test_names_of_programs(database: Path) -> None:
    (workload,) = SQLiteDatabase(database).workloads()
    assert similarity.describe(workload.mod) == f"{ESCAPED} 4x4x4"
    assert str(Problem("records", 1, HOSTILE)) == f"records 1: {ESCAPED}"


@pytest.mark.parametrize("command", [["db", "ls"], ["db", "verify"], ["show", "{name}"]])
def test_commands_show_names_as_text(database: Path, command: list[str]) -> None:
    listed = CliRunner().invoke(app, ["db", "ls", "--json", "--db", str(database)])
    names = re.findall(r'"record":"(\w+)"', listed.output)
    words = [names[0] if word == "{name}" else word for word in command]
    result = CliRunner().invoke(app, [*words, "--db", str(database)])
    assert result.exit_code == 0, result.output
    assert printable(result.output, "\n") == result.output
