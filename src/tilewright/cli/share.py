"""The work of `tilewright compare`, `bundle` and `open`."""

from __future__ import annotations

from pathlib import Path

import typer

from tilewright import sharing
from tilewright.cli.arguments import DEFAULT_DATABASE
from tilewright.cli.console import make_console, print_json
from tilewright.cli.options import database_url, reading
from tilewright.cli.show import find
from tilewright.cli.tables import print_table
from tilewright.database import similarity
from tilewright.database.record_ids import record_id
from tilewright.records import RunnerResult
from tilewright.report.units import seconds, short_target
from tilewright.sharing.bundle import SUFFIX
from tilewright.sharing.comparing import ComparedRow
from tilewright.sharing.intervals import ratio_of
from tilewright.support.table_files import write_csv, write_parquet
from tilewright.support.text import counted, printable
from tilewright.target import Target

_HEADER = ("name", "A", "B", "B / A", "B is")
_COLUMNS = ("name", "unit", "first", "second", "ratio", "low", "high", "verdict")


# --- compare ------------------------------------------------------------------------------------


def compare_sides(
    first: str, second: str, csv: Path | None, parquet: Path | None, *, as_json: bool
) -> None:
    """Print a comparison and write it where it is wanted."""
    made = sharing.compare(*(sharing.side_from(_with_default(text)) for text in (first, second)))
    rows = [_table_row(row) for row in made.rows]
    if csv is not None:
        write_csv(csv, _COLUMNS, rows)
    if parquet is not None:
        write_parquet(parquet, rows)
    if as_json:
        only = {"only_first": made.only_first, "only_second": made.only_second}
        print_json({"rows": rows, **only})
    else:
        _print(made)


def _with_default(text: str) -> str:
    return f"{DEFAULT_DATABASE}{text}" if text.startswith("#") else text


def _table_row(row: ComparedRow) -> dict[str, object]:
    ratio = row.ratio
    values = (ratio.value, ratio.low, ratio.high, ratio.verdict)
    return dict(zip(_COLUMNS, (row.name, row.unit, row.first, row.second, *values), strict=True))


def _print(made: sharing.Comparison) -> None:
    console = make_console()
    console.print(f"A: {made.first.name}\nB: {made.second.name}")
    if made.rows:
        print_table(console, _HEADER, [_shown(row) for row in made.rows])
    for side, names in (("A", made.only_first), ("B", made.only_second)):
        if names:
            console.print(f"only in {side}: {', '.join(names)}")
    total = made.total
    told = counted(len(made.rows), "row") + " in both"
    mean = "" if total is None else f", geometric mean of B / A {total}"
    console.print(f"{told}{mean}")


def _shown(row: ComparedRow) -> tuple[str, ...]:
    times = (
        [seconds(row.first), seconds(row.second)]
        if row.unit == "s"
        else [f"{value:.4g} {row.unit}".rstrip() for value in (row.first, row.second)]
    )
    return row.name, *times, str(row.ratio), row.ratio.verdict


# --- bundles ------------------------------------------------------------------------------------


def bundle(text: str, db: str | None, output: Path | None, target: str) -> None:
    """Write a record to a file of its own."""
    with reading(db) as database:
        record = find(database, database_url(db), text, Target(target))
    path = output or Path(record_id(record) + SUFFIX)
    sharing.write_bundle(sharing.bundle_of(record), path)
    size = path.stat().st_size / 1024
    typer.echo(f"{path}: {similarity.describe(record.workload.mod)}, {size:.0f} KiB")


def open_file(file: Path, *, run: bool, script: bool, as_json: bool) -> int:
    """Show what a bundle holds, and measure it; 1 if that fails."""
    opened = sharing.open_bundle(file)
    result = sharing.measure_bundle(opened) if run else None
    if as_json:
        print_json(_facts(opened, result))
    else:
        console = make_console()
        for line in _lines(opened, result):
            console.print(printable(line))
        if script:
            console.print(opened.scheduled.script())
    return 0 if result is None or result.run_secs else 1


def _lines(opened: sharing.OpenedBundle, result: RunnerResult | None) -> list[str]:
    bundle, name = opened.bundle, similarity.describe(opened.plain)
    there = f"{bundle.failure}: {bundle.error_msg}" if bundle.failure else "no time"
    if bundle.run_secs:
        there = seconds(sum(bundle.run_secs) / len(bundle.run_secs))
    lines = [f"{name}, made by Tilewright {bundle.made_by}"]
    lines.append(f"there: {there} on {short_target(opened.made_for)}")
    if result is None:
        return lines
    here = short_target(opened.measured_for)
    if not result.run_secs:
        cause = "failed" if result.failure is None else result.failure.value
        return [*lines, f"here: {cause} on {here}: {result.error_msg}"]
    checked = "results agree" if result.checked else "results were not compared"
    mean = sum(result.run_secs) / len(result.run_secs)
    lines.append(f"here: {seconds(mean)} on {here}, {checked}")
    if bundle.run_secs:
        lines.append(f"here / there: {ratio_of(result.run_secs, bundle.run_secs)}")
    return lines


def _facts(opened: sharing.OpenedBundle, result: RunnerResult | None) -> dict[str, object]:
    bundle = opened.bundle
    facts: dict[str, object] = {
        "task": similarity.describe(opened.plain),
        "made_by": bundle.made_by,
        "made_for": None if opened.made_for is None else str(opened.made_for),
        "run_secs": bundle.run_secs,
        "failure": bundle.failure,
    }
    if result is not None:
        here = {"target": str(opened.measured_for), "run_secs": result.run_secs}
        told = {"checked": result.checked, "failure": result.failure, "error": result.error_msg}
        facts["here"] = {**here, **told}
    return facts
