"""The terminal that commands print to: coloured for people, plain for pipes."""

from __future__ import annotations

from rich.console import Console

from tilewright.config import settings
from tilewright.errors import ConfigError


def make_console() -> Console:
    """A console that never breaks lines of its own, so that output can be searched."""
    try:
        no_color = settings().no_color
    except ConfigError:
        # `doctor` must be able to say what is wrong with the settings.
        no_color = True
    return Console(no_color=no_color or None, highlight=False, soft_wrap=True)
