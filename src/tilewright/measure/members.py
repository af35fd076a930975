"""Every builder and runner of ours, imported so that they are known by name."""

from __future__ import annotations

from tilewright.measure.base import (
    Builder as Builder,
    Runner as Runner,
    builders as builders,
    runners as runners,
)
from tilewright.measure.local_builder import LocalBuilder as LocalBuilder
from tilewright.measure.local_runner import LocalRunner as LocalRunner
from tilewright.measure.replay import ReplayBuilder as ReplayBuilder, ReplayRunner as ReplayRunner
