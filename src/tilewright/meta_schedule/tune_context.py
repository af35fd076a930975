"""Tasks."""

from tilewright.tune import TuneContext as TuneContext
