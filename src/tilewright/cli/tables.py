"""Tables for terminals: ruled on a screen, plain columns in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

NUMBERS = frozenset(
    {"best", "GFLOPS", "of roofline", "records", "failed", "trials", "time", "speed-up"}
)


def print_table(console: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a header; columns of numbers are aligned to the right."""
    cells = [list(row) for row in rows]
    if not console.is_terminal:
        # A pipe has no width: nothing is cut or wrapped there.
        console.print("\n".join(_plain_lines(header, cells)), markup=False)
        return
    table = make_table(header)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table, soft_wrap=False)


def make_table(header: Sequence[str]) -> Table:
    """An empty table with these columns, for a screen."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in header:
        number = name in NUMBERS
        table.add_column(name, justify="right" if number else "left", no_wrap=number)
    return table


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
