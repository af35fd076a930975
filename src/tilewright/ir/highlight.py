"""Colours for printed script: ANSI codes on a terminal, HTML in a notebook."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from typing import Final

from tilewright.config import no_color

# Alternatives are tried in this order, so a string that contains a keyword stays a string.
_TOKEN: Final = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<decorator>@[\w.]+)"
    r"|(?P<keyword>\b(?:def|class|for|in|with|as|if|else|elif|while|assert|and|or|not|return|pass"
    r"|lambda|None|True|False)\b)"
    r"|(?P<namespace>\b[TI](?:\.\w+)+)"
    r"|(?P<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)"
)
_ANSI: Final = {
    "comment": "\x1b[2;3m",
    "string": "\x1b[32m",
    "decorator": "\x1b[35m",
    "keyword": "\x1b[1;34m",
    "namespace": "\x1b[36m",
    "number": "\x1b[33m",
}
_ANSI_RESET: Final = "\x1b[0m"
_HTML: Final = {
    "comment": "color:#6a737d;font-style:italic",
    "string": "color:#22863a",
    "decorator": "color:#8250df",
    "keyword": "color:#0550ae;font-weight:bold",
    "namespace": "color:#0a7a8a",
    "number": "color:#b35900",
}


def _colour(text: str, plain: Callable[[str], str], wrap: Callable[[str, str], str]) -> str:
    parts: list[str] = []
    position = 0
    for match in _TOKEN.finditer(text):
        parts.append(plain(text[position : match.start()]))
        parts.append(wrap(match.lastgroup or "", match.group()))
        position = match.end()
    parts.append(plain(text[position:]))
    return "".join(parts)


def to_ansi(text: str) -> str:
    """Script with terminal colours."""
    return _colour(text, str, lambda kind, token: f"{_ANSI[kind]}{token}{_ANSI_RESET}")


def to_html(text: str) -> str:
    """Script as a coloured HTML block."""
    spans = _spans(text, lambda kind: f'style="{_HTML[kind]}"')
    return f'<pre style="line-height:1.3">{spans}</pre>'


def to_classes(text: str) -> str:
    """Script as HTML whose style sheet has a class for each kind of token: `tok-keyword`, ..."""
    return _spans(text, lambda kind: f'class="tok-{kind}"')


def _spans(text: str, attribute: Callable[[str], str]) -> str:
    def wrap(kind: str, token: str) -> str:
        return f"<span {attribute(kind)}>{html.escape(token)}</span>"

    return _colour(text, html.escape, wrap)


def show(text: str, colour: bool | None = None) -> None:
    """Print script, coloured if `colour` says so, or by itself on a terminal or in a notebook."""
    if colour is None and _show_in_notebook(text):
        return
    use_colour = sys.stdout.isatty() and not no_color() if colour is None else colour
    sys.stdout.write((to_ansi(text) if use_colour else text) + "\n")


def _show_in_notebook(text: str) -> bool:
    """Display HTML when a notebook is running; IPython is never imported by us."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return False
    display = sys.modules["IPython.display"]
    display.display(display.HTML(to_html(text)))
    return True
