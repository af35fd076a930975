"""Runners."""

from tilewright.measure import (
    EvaluatorConfig as EvaluatorConfig,
    FinishedFuture,
    FunctionFuture,
    LocalRunner as LocalRunner,
    ReplayRunner as ReplayRunner,
    Runner as Runner,
)
from tilewright.measure.default_hooks import (
    default_alloc_argument as default_alloc_argument,
    default_cleanup as default_cleanup,
    default_run_evaluator as default_run_evaluator,
)
from tilewright.records import (
    RunnerFuture as _RunnerFuture,
    RunnerInput as RunnerInput,
    RunnerResult as RunnerResult,
)

PyRunner = Runner
PyRunnerFuture = _RunnerFuture
RunnerFuture = FunctionFuture
LocalRunnerFuture = FinishedFuture
create = Runner.create
