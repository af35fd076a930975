"""Where the time of a tuning run goes."""

from tilewright.tune import Profiler as Profiler
