"""Runners."""

from collections.abc import Callable

from tilewright.fleet.members import (
    RayRunner as RayRunner,
    RPCConfig as RPCConfig,
    RPCRunner as RPCRunner,
)
from tilewright.fleet.session_task import (
    default_create_session as default_create_session,
    default_upload_module as default_upload_module,
)
from tilewright.measure import (
    EvaluatorConfig as EvaluatorConfig,
    FinishedFuture,
    FunctionFuture,
    LocalRunner as LocalRunner,
    ReplayRunner as ReplayRunner,
    Runner as Runner,
)
from tilewright.measure.default_hooks import (
    Infos,
    default_alloc_argument as default_alloc_argument,
    default_cleanup as default_cleanup,
    default_run_evaluator as default_run_evaluator,
)
from tilewright.records import (
    RunnerFuture as _RunnerFuture,
    RunnerInput as RunnerInput,
    RunnerResult as RunnerResult,
)
from tilewright.runtime.devices import Device
from tilewright.runtime.ndarray import NDArray

T_ARG_INFO_JSON_OBJ = list[object]
T_ARG_INFO_JSON_OBJ_LIST = list[T_ARG_INFO_JSON_OBJ]
T_ARGUMENT = object
T_ARGUMENT_LIST = list[T_ARGUMENT]
PyRunner = Runner
PyRunnerFuture = _RunnerFuture
RunnerFuture = FunctionFuture
LocalRunnerFuture = FinishedFuture
create = Runner.create
run_evaluator_common = default_run_evaluator


def alloc_argument_common(
    f_random_fill: Callable[[NDArray], object], device: Device, args_info: Infos, alloc_repeat: int
) -> list[list[NDArray]]:
    """`alloc_repeat` sets of arrays that `f_random_fill` has filled."""
    made = default_alloc_argument(device, args_info, alloc_repeat)
    for arguments in made:
        for argument in arguments:
            f_random_fill(argument)
    return made
