"""Text for people: excerpts with a caret, counted nouns, names that cannot steer a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_TAB = " " * 4


def printable(text: str, keep: str = "") -> str:
    """What would steer a terminal, or cannot be written to it, as the escape that stands for it.

    Names in files may come from anybody; `keep` are characters that stay, such as ends of lines.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def render_excerpt(
    lines: Sequence[str],
    line_no: int,
    col: int,
    end_col: int | None = None,
    note: str = "",
    *,
    context: int = 1,
) -> str:
    """Line `line_no` (from 1), with `^^^ note` under columns `col` to `end_col` (from 0).

    A place outside the source is moved to the nearest one inside, so that a message never fails.

        3 |     for i in T.grid(8, 8):
        4 |         B[i] = A[j]
          |                  ^ undefined variable
    """
    if not lines:
        return note
    line_no = min(max(line_no, 1), len(lines))
    first = max(1, line_no - context)
    width = len(str(line_no))
    out = [
        f"{number:>{width}} | {_shown(lines[number - 1])}" for number in range(first, line_no + 1)
    ]
    out.append(f"{'':>{width}} | {_underline(lines[line_no - 1], col, end_col)} {note}".rstrip())
    return "\n".join(out)


def _underline(line: str, col: int, end_col: int | None) -> str:
    line = line.rstrip()
    col = min(max(col, 0), len(line))
    end = len(line) if end_col is None else min(max(end_col, col), len(line))
    start = len(_shown(line[:col], strip=False))
    length = len(_shown(line[:end], strip=False)) - start
    return " " * start + "^" * max(1, length)


def _shown(line: str, *, strip: bool = True) -> str:
    shown = line.replace("\t", _TAB)
    return shown.rstrip() if strip else shown
