"""Task schedulers."""

from tilewright.tune.schedulers import (
    GradientBased as GradientBased,
    Limits as Limits,
    RoundRobin as RoundRobin,
    TaskScheduler as TaskScheduler,
    task_schedulers as task_schedulers,
)

PyTaskScheduler = TaskScheduler
create = task_schedulers.create
