"""Task schedulers."""

from tilewright.tune.schedulers import (
    GradientBased as GradientBased,
    RoundRobin as RoundRobin,
    TaskScheduler as TaskScheduler,
    task_schedulers as task_schedulers,
)

PyTaskScheduler = TaskScheduler
create = task_schedulers.create
