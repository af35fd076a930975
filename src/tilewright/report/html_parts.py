"""Pieces of pages: tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{name}</th>" for name in header)
    # On a phone each cell has its name.
    cells = (
        [f'<td data-name="{n}">{t}</td>' for n, t in zip(header, r, strict=True)] for r in rows
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    return f"<table><tr>{head}</tr>{body}</table>"


def figure(picture: str, title: str, caption: str = "") -> str:
    """A picture with a title; nothing if there is no picture."""
    if not picture:
        return ""
    return f"<figure><h3>{title}</h3>{picture}<figcaption>{caption}</figcaption></figure>"
