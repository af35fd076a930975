"""Tables for terminals: ruled on a screen, plain columns in a pipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.support.text import printable

NUMBERS = frozenset(
    {"best", "GFLOPS", "of roofline", "records", "failed", "trials", "time", "speed-up"}
)


# On a narrow screen columns go, in this order, until the names have room.
DISPENSABLE = (
    "record", "target", "results", "phase", "shape", "failed", "records", "trials", "of roofline",
    "GFLOPS", "speed-up",
)  # fmt: skip
_GAP = 3
_LEAST_NAME = 24  # characters of a name before it is broken


def print_table(console: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header; columns of numbers are aligned to the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        # A pipe has no width: nothing is cut or wrapped there.
        console.print("\n".join(_plain_lines(header, cells)))
        return
    console.print(make_table(header, cells, console.width), soft_wrap=False)


def make_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    emphasized: Collection[int] = (),
) -> Table:
    """A table for a screen of that width; names, in the first column, are never cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    kept = _columns_that_fit(header, rows, width)
    for column in kept:
        name = header[column]
        number = name in NUMBERS
        table.add_column(
            name, justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for place, row in enumerate(rows):
        style = "bold" if place in emphasized else ""
        table.add_row(*(Text(printable(row[column])) for column in kept), style=style)
    return table


def _columns_that_fit(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[int]:
    widths = [max(len(line[place]) for line in [header, *rows]) for place in range(len(header))]
    widths[0] = min(widths[0], _LEAST_NAME)
    kept = list(range(len(header)))
    for name in DISPENSABLE:
        if sum(widths[place] + _GAP for place in kept) - _GAP <= width:
            break
        kept = [place for place in kept if header[place] != name]
    return kept


def _plain_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(header), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return [
        "  ".join(
            f"{cell:>{width}}" if name in NUMBERS else f"{cell:<{width}}"
            for name, cell, width in zip(header, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
