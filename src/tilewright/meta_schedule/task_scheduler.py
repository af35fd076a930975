"""Task schedulers."""

from tilewright.tune.policy import (
    GradientBased as GradientBased,
    RoundRobin as RoundRobin,
    TaskScheduler as TaskScheduler,
    task_schedulers as task_schedulers,
)
from tilewright.tune.task import TaskRecord as TaskRecord

PyTaskScheduler = TaskScheduler
create = TaskScheduler.create
