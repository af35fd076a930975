"""Schedule rules."""

from tilewright.space.base import NotApplied as NotApplied, ScheduleRule as ScheduleRule
from tilewright.space.rules import *  # noqa: F403 - a list of names

PyScheduleRule = ScheduleRule
create = ScheduleRule.create
