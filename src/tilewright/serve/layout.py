"""The frame of all pages, and small parts that several of them have."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.report.units import duration
from tilewright.serve.live_runs import LiveRun
from tilewright.serve.snapshot import Snapshot

_PAGES = (("/", "Overview"), ("/models", "Models"), ("/compare", "Compare runs"))


def page(
    title: str, body: str, snapshot: Snapshot, address: str = "", *, scripts: Sequence[str] = ()
) -> str:
    """A whole page."""
    links = "".join(
        f'<a href="{where}"{_current(where == address)}>{name}</a>' for where, name in _PAGES
    )
    return (
        f"{head(title, ('live', *scripts))}<body data-version={snapshot.version}>"
        '<a class="skip" href="#main">Skip to the content</a>'
        f'<header class="bar-top"><a class="brand" href="/">Tilewright</a>'
        f'<nav aria-label="Pages">{links}</nav>{_state(snapshot)}</header>'
        f'<main id="main">{body}</main></body></html>\n'
    )


def head(title: str, scripts: Sequence[str] = ()) -> str:
    """Everything before the body."""
    loaded = "".join(f'<script type="module" src="/static/{name}.js"></script>' for name in scripts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} · Tilewright</title>"
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="/static/page.css">'
        f"{loaded}</head>"
    )


def live(name: str, content: str, kind: str = "section") -> str:
    """A part that takes in what is new without the page being loaded again."""
    return f'<{kind} id="{name}" data-live>{content}</{kind}>'


def share_bar(share: float, label: str, style: str = "bar") -> str:
    """A bar as wide as a share of 1."""
    width = max(0.0, min(1.0, share)) * 100
    return (
        f'<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><rect class="track" width="100" height="8"/>'
        f'<rect class="{style}" width="{width:.1f}" height="8"/></svg>'
    )


def ago(seconds: float) -> str:
    """How long something is past."""
    return "now" if seconds < 2 else f"{duration(seconds)} ago"


def _current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""


def _state(snapshot: Snapshot) -> str:
    runs = snapshot.live.going_on
    text = escape("; ".join(map(_doing, runs))) or "nothing is being tuned"
    style = "going" if runs else "idle"
    return f'<p class="state {style}" role="status" id="state" data-live>{text}</p>'


def _doing(run: LiveRun) -> str:
    return run.doing or "tuning"
