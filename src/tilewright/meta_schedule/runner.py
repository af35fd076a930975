"""Runners."""

from tilewright.measure import (
    EvaluatorConfig as EvaluatorConfig,
    LocalRunner as LocalRunner,
    ReplayRunner as ReplayRunner,
    Runner as Runner,
)
from tilewright.records import (
    RunnerFuture as RunnerFuture,
    RunnerInput as RunnerInput,
    RunnerResult as RunnerResult,
)

PyRunner = Runner
PyRunnerFuture = RunnerFuture
create = Runner.create
