"""`tilewright db`: what is listed, moved, forgotten and found damaged."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import open_database
from tilewright.testing.postgres_server import PostgresServer


def test_ls(command: Any, records: Path) -> None:
    header, small, large, total = command("db", "ls").lines
    assert header.split() == [
        "task",
        "target",
        "records",
        "failed",
        "best",
        "GFLOPS",
        "of",
        "roofline",
        "record",
    ]
    assert large.split("  ")[0] == "mm · C 16x16x16"
    assert small.split("  ")[0] == "C 32x32x32"
    assert re.search(r"4 cores +4 +1  1\.00 µs +8\.2 +\d+ %  [0-9a-f]{10}$", large)
    assert re.search(r"4 cores +1 +0  10\.0 µs +6\.6 +\d+ %  [0-9a-f]{10}$", small)
    assert total == "5 records of 2 tasks in .tilewright/records.db"


def test_ls_as_json(command: Any, records: Path) -> None:
    tasks = json.loads(command("db", "ls", "--json").out)
    by_name = {task["task"]: task for task in tasks}
    small = by_name["C 16x16x16"]
    assert (small["records"], small["failed"], small["best_secs"]) == (4, 1, 1e-6)
    assert small["labels"] == ["mm"]
    assert small["gflops"] == pytest.approx(8.192)


def test_there_is_no_database(command: Any) -> None:
    failed = command("db", "ls", status=2)
    assert failed.err == (
        "error: there is no database .tilewright/records.db here; `tilewright tune` creates one, "
        "--db names another\n"
    )
    assert command("db", "ls", "--db", "x.db", status=2).err == (
        "error: there is no database at x.db\n"
    )
    assert (
        "unknown kind of database 'mysql'" in command("db", "ls", "--db", "mysql:x", status=2).err
    )


def test_an_empty_database(command: Any, tmp_path: Path) -> None:
    open_database(tmp_path / "x.db").close()
    assert command("db", "ls", "--db", "x.db").lines == ["0 records of 0 tasks in x.db"]


def test_merge(command: Any, records: Path) -> None:
    url = str(Path(".tilewright/records.db"))
    assert command("db", "merge", "all.db", url).lines == [f"{url}: 5 records, 5 new in all.db"]
    assert command("db", "merge", "all.db", url).lines == [f"{url}: 5 records, 0 new in all.db"]
    assert "there is no database at no.db" in command("db", "merge", "b.db", "no.db", status=2).err
    assert not Path("b.db").exists()


def test_prune(command: Any, records: Path) -> None:
    asked = command("db", "prune", status=2)
    assert asked.err == ("error: pruning deletes records; add --yes to do it without being asked\n")
    done = command("db", "prune", "--top", "1", "--yes")
    assert done.lines == ["3 records removed, 2 left in .tilewright/records.db"]
    assert len(command("db", "ls").lines) == 4
    assert "there is no database at no.db" in command("db", "prune", "--db", "no.db", status=2).err


@pytest.mark.parametrize("name", ["out.json", "out.csv", "tvm_files"])
def test_export(command: Any, records: Path, name: str) -> None:
    done = command("db", "export", name)
    assert done.lines == [f"5 records of .tilewright/records.db written to {name}"]
    assert Path(name).exists()


def test_export_somewhere_impossible(command: Any, records: Path) -> None:
    assert command("db", "export", "out.xml", status=2).err == (
        "error: out.xml: the suffix does not tell the format; use .json, .csv, .parquet, or "
        "--format\n"
    )
    assert command("db", "export", "out", "--format", "jsn", status=2).err == (
        "error: unknown format 'jsn'; did you mean 'json'?\n"
    )
    assert command("db", "export", "no/where.csv", status=2).err == (
        "error: cannot write no/where.csv: No such file or directory\n"
    )


@pytest.mark.parametrize("name", ["out.json", "tvm_files"])
def test_import(command: Any, records: Path, name: str) -> None:
    command("db", "export", name)
    assert command("db", "import", name, "--db", "new.db").lines[0].startswith("5 new records from")
    assert command("db", "import", name, "--db", "new.db").lines[0].startswith("0 new records from")
    assert command("db", "import", "nothing.json", status=2).err == (
        "error: there is nothing at nothing.json\n"
    )


def test_verify(command: Any, records: Path) -> None:
    assert command("db", "verify").lines == ["5 records in .tilewright/records.db: no problems"]
    with sqlite3.connect(records) as connection:
        connection.execute("UPDATE records SET trace = '[]' WHERE id = 2")
    connection.close()
    problem, verdict = command("db", "verify", status=1).lines
    assert problem == "records 2: the trace is not the one that was written"
    assert verdict == "5 records in .tilewright/records.db: 1 problem"


# --- servers ------------------------------------------------------------------------------------


def test_a_server_wherever_a_file_is_taken(
    command: Any, records: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database(is_empty=True)
    name = url.split("/")[3].split("?")[0]
    with_password = url.replace("postgres@", "postgres:secret@")
    assert "has no tables of Tilewright; `tilewright db init postgresql://postgres@/" in (
        command("db", "ls", "--db", with_password, status=2).err
    )
    assert command("db", "init", with_password).lines == [
        f"{url}: tables made",
        f"roles to grant: {name}_reader may look, {name}_tuner may add records, {name}_owner may "
        "delete and upgrade",
    ]
    assert command("db", "init", url, "--no-roles").lines == [f"{url}: its tables are there"]
    copied = "5 records, {} new in " + url
    old = ".tilewright/records.db"
    assert command("db", "copy", old, with_password).lines == [f"{old}: {copied.format(5)}"]
    assert command("db", "copy", old, url).lines == [f"{old}: {copied.format(0)}"]
    here, there = command("db", "ls").lines, command("db", "ls", "--db", with_password).lines
    assert there == [*here[:-1], f"5 records of 2 tasks in {url}"]
    assert command("db", "upgrade", url).lines == [f"{url}: up to date, schema 3"]
    assert command("report", "--db", url).lines[0].startswith("report.html: 5 records")
    assert command("show", "best", "--db", url, status=2).err.startswith(f"error: {url} has 2 task")
    assert command("db", "prune", "--yes", "--db", url).lines == [
        f"3 records removed, 2 left in {url}"
    ]


def test_preparing_and_upgrading_files(command: Any, records: Path) -> None:
    assert command("db", "init", "x.db", status=2).err == (
        "error: x.db needs no preparation; db init is for postgresql://USER@HOST/NAME\n"
    )
    assert command("db", "upgrade").lines == [".tilewright/records.db: up to date, schema 3"]
    raw = sqlite3.connect(records)
    raw.execute("DROP INDEX records_by_task")
    raw.execute("DROP INDEX records_by_program")
    raw.execute("ALTER TABLE records DROP COLUMN program")
    raw.execute("PRAGMA user_version = 1")
    raw.close()
    assert command("db", "upgrade").lines == [".tilewright/records.db: schema 1 -> 3"]
