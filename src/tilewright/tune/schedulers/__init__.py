"""Task schedulers, one file each."""

from tilewright.tune.schedulers.base import (
    TaskScheduler as TaskScheduler,
    task_schedulers as task_schedulers,
)
from tilewright.tune.schedulers.gradient_based import GradientBased as GradientBased
from tilewright.tune.schedulers.round_robin import RoundRobin as RoundRobin
