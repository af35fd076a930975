"""Measures the parts of a tuning run's time."""

from tilewright.tune import Profiler as Profiler
