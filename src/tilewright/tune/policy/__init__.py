"""Task schedulers, one file each."""

from tilewright.tune.policy.base import (
    TaskScheduler as TaskScheduler,
    task_schedulers as task_schedulers,
)
from tilewright.tune.policy.gradient_based import GradientBased as GradientBased
from tilewright.tune.policy.model_gradient import ModelGradient as ModelGradient
from tilewright.tune.policy.round_robin import RoundRobin as RoundRobin
