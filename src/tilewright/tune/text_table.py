"""Plain tables, in the layout that logs of MetaSchedule have."""

from __future__ import annotations

from collections.abc import Sequence


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Right-aligned cells between bars; fractions with four decimals."""
    lines = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = ["|".join(f" {c:>{w}} " for c, w in zip(line, widths, strict=True)) for line in lines]
    dashes = "-" * (sum(widths) + 3 * len(widths) - 1)
    return "\n".join([texts[0], dashes, *texts[1:]])
