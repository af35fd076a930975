"""Helpers for tests of schedules."""

from tilewright.testing.schedule_checks import (
    assert_structural_equal_ignore_global_symbol as assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip as verify_trace_roundtrip,
)
