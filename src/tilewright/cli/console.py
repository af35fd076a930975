"""The terminal that commands print to: coloured for people, plain for pipes."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.console import Console

from tilewright.config import no_color
from tilewright.support.text import printable


class _Console(Console):
    """Text that commands print may come from a file of anybody's: it cannot steer the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        shown = (printable(each, "\n") if isinstance(each, str) else each for each in objects)
        super().print(*shown, **options)


def make_console() -> Console:
    """A console that breaks no lines, so that output can be searched, and reads no markup."""
    plain = no_color()
    # Without a colour system there are no codes at all, not even for bold type.
    return _Console(
        no_color=plain or None,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def print_json(value: object) -> None:
    """Print a value as one line of JSON."""
    print(msgspec.json.encode(value).decode(), flush=True)


def may_redraw(console: Console) -> bool:
    """True on a screen whose cursor may be moved."""
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color
