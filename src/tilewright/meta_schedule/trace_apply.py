"""Schedules carried over from one program to another."""

from tilewright.database.anchor_trace import (
    schedule_using_anchor_trace as schedule_using_anchor_trace,
)
