"""`tilewright report`: the file is written where it was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_report(command: Any, records: Path) -> None:
    (line,) = command("report").lines
    assert line.startswith("report.html: 5 records, ")
    assert line.endswith(" KiB, needs nothing but a browser")
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "mm · C 16x16x16" in page


def test_elsewhere(command: Any, records: Path) -> None:
    command("report", "-o", "r.html", "--db", ".tilewright/records.db")
    assert Path("r.html").exists()
    assert command("report", "-o", "no/where.html", status=2).err == (
        "error: cannot write the report no/where.html: No such file or directory\n"
    )


def test_no_database(command: Any) -> None:
    assert "there is no database .tilewright/records.db here" in command("report", status=2).err
