"""Beyond one machine: databases of ten million records, many writers, and measuring on Ray.

    python benchmarks/scale.py [--quick] [--json FILE] [--only ROW ...]

- `trials_1` to `trials_8` (`--only trials_N`): trials a second with so many measuring actors on a
  Ray cluster of this machine, whose kernels sleep. The rival is linear: N times the rate of one.
- `simulated_1000`: how busy 1,000 devices are with the same scheduler in simulated time, on the
  durations of a recorded tuning run, 1 % of nodes lost an hour and 5 % of them slow. No trial may
  be lost, and all results must be those of a run without faults.
- `kills`: 50 random kills of actors, nodes and the PostgreSQL server while the tuner tunes through
  Ray into that server. Every record that was acknowledged must be there once, and where tuning
  ends it ends with one line.
- `db_10m_sqlite_best`, `db_10m_postgres_best`: the median time in ms of the best record of a
  workload among 10 million records of 1,000 workloads for two machines, in a process that never saw
  the workload. The rival is the limit. The note says what asking again takes, and how much of the
  first time is work of the reader: on a busy machine the rest is waiting.
- `db_10m_sqlite_memory`, `db_10m_postgres_memory`: the most memory in MB of that reader, all of
  Python and Tilewright included.
- `db_10m_postgres_writers`, `db_10m_sqlite_writers`: 16 processes write 1,000 records each, all of
  which must be there once; the time of a record in ms.

The records are made up, with programs, traces and keys as long as real ones of a small product.
They are written in bulk; `--quick` writes a tenth, kills ten times and sleeps shorter. The server
runs from the distribution's packages on a socket of its own and needs psycopg; without it, or
without Ray, rows are skipped. With `--only`, the other rows of FILE stay as they are.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import scale_ray
from harness import HEADER, Report, Row, finish, parse_arguments

from tilewright.database import Database, PostgresDatabase, SQLiteDatabase, open_database
from tilewright.database.postgres_connection import PostgresConnection
from tilewright.database.sql_rows import INSERT, insertion
from tilewright.ir import structural_hash
from tilewright.records import TuningRecord
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul
from tilewright.testing.postgres_server import postgres_server, why_missing

RECORDS, WORKLOADS = 10_000_000, 1000
TARGETS = (Target("llvm -mcpu=skylake-avx512"), Target("llvm -mcpu=haswell"))
WRITERS, WRITTEN, ROUND = 16, 1000, 10
ASKED = 200  # workloads
LIMIT_MS, LIMIT_MB = 5.0, 300.0
COLUMNS = INSERT[INSERT.index("(") + 1 : INSERT.index(")")].split(", ")
CHANGED = ("key", "mean", "run_secs", "program")
EXTRA = {"protocol": "v1", "seed": 7, "round": 3, "candidate_hash": "0" * 16}
WRITER = "writer"  # in the protocol of what writers write

TableRow = tuple[object, ...]


# --- making the records --------------------------------------------------------------------------


def program_of(number: int) -> Any:
    """A workload of its own for each number."""
    return matmul(8 + number % 10, 8 + number // 10 % 10, 8 + number // 100)


def templates_of(database: Any) -> list[TableRow]:
    """The rows of real records, which are committed: one for each workload and target."""
    rows = []
    with database.transaction():
        for number in range(WORKLOADS):
            workload = database.commit_workload(program_of(number))
            for seed, target in enumerate(TARGETS, 1):
                record = a_record(workload, 2.0, seed=seed, target=target, extra=EXTRA)
                database.commit_tuning_record(record)
                ids = database._adopt(workload), database._targets.add(record)
                rows.append(insertion(record, ids[0], structural_hash(workload.mod), ids[1]))
    return rows


def made_up_rows(templates: Sequence[TableRow], count: int) -> Iterator[TableRow]:
    """So many rows as the templates are, each with a time, a program and a key of its own."""
    names = list(zip(COLUMNS, range(len(COLUMNS)), strict=True))
    key, mean, secs, program = (dict(names)[name] for name in CHANGED)
    for number in range(count):
        row = list(templates[number * len(templates) // count])
        time_taken = 1e-3 + (number * 2654435761 % 2**32) / 2**32
        row[key], row[mean] = number.to_bytes(16, "big"), time_taken
        row[secs], row[program] = f"[{time_taken!r}]", f"{number:016x}"
        yield tuple(row)


def fill_sqlite(path: Path, count: int) -> str:
    """One transaction without a log, indices at the end; the path."""
    with closing(SQLiteDatabase(path)) as database:
        templates = templates_of(database)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        found = "SELECT name, sql FROM sqlite_master WHERE name LIKE 'records_by%'"
        indices = raw.execute(found).fetchall()
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -500000"):
            raw.execute(f"PRAGMA {pragma}")
        raw.execute("BEGIN")
        for name, _ in indices:
            raw.execute(f"DROP INDEX {name}")
        raw.executemany(INSERT, made_up_rows(templates, count))
        for _, statement in indices:
            raw.execute(statement)
        raw.execute("COMMIT")
        raw.execute("ANALYZE")
    return str(path)


# The server makes the same rows of the records that are there, which are the templates.
MADE_UP = {
    "key": "decode(lpad(to_hex(n), 32, '0'), 'hex')",
    "mean": "secs",
    "run_secs": "'[' || secs || ']'",
    "program": "lpad(to_hex(n), 16, '0')",
}
FILL = f"""
INSERT INTO records ({", ".join(COLUMNS)})
SELECT {", ".join(MADE_UP.get(name, name) for name in COLUMNS)}
FROM (
    SELECT n, n * ? / ? AS number,
        1e-3 + mod(n * 2654435761, 1::bigint << 32) / 2::float8 ^ 32 AS secs
    FROM generate_series(0::bigint, ?) AS n
) AS numbers
JOIN (SELECT row_number() OVER (ORDER BY id) - 1 AS number, * FROM records) AS t USING (number)"""


def fill_postgres(url: str, count: int) -> str:
    """One statement without checks of foreign keys, indices at the end; the URL."""
    with closing(PostgresDatabase(url)) as database:
        templates = templates_of(database)
    with closing(PostgresConnection(url)) as store:
        indices = store.rows(
            "SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE ?", ("records_by%",)
        )
        for name, _ in indices:
            store.rows(f"DROP INDEX {name}")
        store.rows("SET session_replication_role TO replica")
        store.rows("SET maintenance_work_mem TO '1GB'")
        store.rows(FILL, (len(templates), count, count - 1))
        for _, statement in indices:
            store.rows(statement)
        store.rows("VACUUM ANALYZE records")
    return url


# --- processes of their own ----------------------------------------------------------------------


def read(url: str) -> dict[str, float]:
    """What a reader sees: times in ms, and the most memory in MB."""
    database = open_database(url, read_only=True)
    numbers = random.Random(1).sample(range(WORKLOADS), ASKED)
    programs = [program_of(number) for number in numbers]
    ask(database, programs[0])  # what is detected once
    worked = time.process_time()
    first = [ask(database, program) for program in programs[1:]]
    worked = time.process_time() - worked
    again = [ask(database, program) for program in programs[1:]]
    database.close()
    # What `resource` tells of a process begins with what its parent had.
    status = Path("/proc/self/status").read_text()
    memory = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return {
        "first": statistics.median(first),
        "again": statistics.median(again),
        "least": min(first),
        "worked": 1e3 * worked / len(first),
        "memory": memory,
    }


def ask(database: Database, program: Any) -> float:
    """Milliseconds until the best record of a program is there."""
    start = time.perf_counter()
    record = database.query_tuning_record(program, TARGETS[0], "main")
    taken = 1e3 * (time.perf_counter() - start)
    if record is None or record.mean_secs > 0.01:
        raise AssertionError(f"the best record takes 1 ms and a little, not {record}")
    return taken


def write(url: str, writer: int) -> dict[str, float]:
    """Write records as a tuner does, a few at a time; the seconds it took."""
    database = open_database(url)
    start = time.perf_counter()
    workload = database.commit_workload(program_of(0))
    for round_ in range(WRITTEN // ROUND):
        database.commit_tuning_records(
            written_record(workload, writer, round_, trial) for trial in range(ROUND)
        )
    taken = time.perf_counter() - start
    database.close()
    return {"seconds": taken}


def written_record(workload: Any, writer: int, round_: int, trial: int) -> TuningRecord:
    """A record that no other writer has."""
    place = {"protocol": f"{WRITER} {trial}", "seed": writer, "round": round_}
    return a_record(workload, 3.0 + trial, target=TARGETS[0], extra=place)


def in_processes(*arguments: Sequence[str]) -> list[dict[str, float]]:
    """Run this file in as many processes at once; what they print."""
    command = [sys.executable, __file__]
    started = [
        subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)
        for words in arguments
    ]
    answers = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process failed")
    return [json.loads(answer) for answer in answers]


# --- rows ----------------------------------------------------------------------------------------


def reader_rows(report: Report, kind: str, url: str, count: int) -> None:
    """The times and the memory of a reader."""
    (found,) = in_processes(["--read", url])
    note = (
        f"{count:,} records; the quickest {found['least']:.2f}, asked again {found['again']:.2f}; "
        f"{found['worked']:.2f} of the reader's processor time"
    )
    report.add(Row(f"db_10m_{kind}_best", found["first"], LIMIT_MS, "limit", "ms", note))
    report.add(Row(f"db_10m_{kind}_memory", found["memory"], LIMIT_MB, "limit", "MB"))


def writer_row(report: Report, kind: str, url: str) -> None:
    """All that the writers wrote must be there, once."""
    start = time.perf_counter()
    in_processes(*(["--write", url, str(writer)] for writer in range(WRITERS)))
    taken = time.perf_counter() - start
    with closing(open_database(url, read_only=True)) as database:
        records = database.get_tuning_records_of(database.commit_workload(program_of(0)))
    places = [
        (record.extra["seed"], record.extra["round"], record.protocol)
        for record in records
        if record.protocol.startswith(WRITER)
    ]
    if not len(places) == len(set(places)) == WRITERS * WRITTEN:
        raise AssertionError(f"{len(set(places))} of {len(places)} records are different")
    each = 1e3 * taken / len(places)
    note = f"{WRITERS} x {WRITTEN} records, none lost, none doubled; start of processes included"
    report.add(Row(f"db_10m_{kind}_writers", each, None, "-", "ms", note))


def add_rows(report: Report, kind: str, fill: Callable[[], str], count: int) -> None:
    """All rows of a kind of database."""
    start = time.perf_counter()
    url = fill()
    print(f"{kind}: {count:,} records in {time.perf_counter() - start:.0f} s", flush=True)
    reader_rows(report, kind, url, count)
    writer_row(report, kind, url)


def main() -> None:
    """Measure the rows."""
    if "--read" in sys.argv:
        return print(json.dumps(read(sys.argv[2])))
    if "--write" in sys.argv:
        return print(json.dumps(write(sys.argv[2], int(sys.argv[3]))))
    options = parse_arguments("Databases of ten million records, and measuring on Ray.")
    report = Report("beyond one machine")
    print(HEADER)
    for name, add in GROUPS.items():
        if options.only is None or any(_is_of(row, name) for row in options.only):
            add(report, quick=options.quick)
    if options.only is not None and options.json is not None:
        report.keep_others(options.json)
    finish(report, options)


def sqlite_rows(report: Report, *, quick: bool) -> None:
    """Rows `db_10m_sqlite_*`."""
    count = RECORDS // 10 if quick else RECORDS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.db"
        add_rows(report, "sqlite", lambda: fill_sqlite(path, count), count)


def postgres_rows(report: Report, *, quick: bool) -> None:
    """Rows `db_10m_postgres_*`."""
    if why_missing():
        return report.skip("db_10m_postgres", why_missing())
    count = RECORDS // 10 if quick else RECORDS
    with postgres_server() as server:
        url = server.new_database()
        add_rows(report, "postgres", lambda: fill_postgres(url, count), count)


GROUPS: dict[str, Callable[..., None]] = {
    "trials": scale_ray.trials,
    "simulated_1000": scale_ray.simulated,
    "kills": scale_ray.kills,
    "db_10m_sqlite": sqlite_rows,
    "db_10m_postgres": postgres_rows,
}


def _is_of(row: str, group: str) -> bool:
    """Whether a row, or the start of its name, is one of a group."""
    return row.startswith(group) or group.startswith(row)


if __name__ == "__main__":
    main()
