"""The profiler of a tuning run."""

from tilewright.tune import Profiler as Profiler
