"""`RPCRunner`: TVM's runner for other machines, on the same actors as `RayRunner`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.fleet.messages import RunnerSettings, names_of
from tilewright.fleet.ray_runner import DevicePlace, Devices
from tilewright.fleet.rpc_config import RPCConfig as RPCConfig, resource_of
from tilewright.fleet.scheduler import FleetLimits
from tilewright.measure.base import Runner, runners
from tilewright.measure.evaluator import EvaluatorConfig
from tilewright.measure.hooks import Hook
from tilewright.measure.pool import check_positive
from tilewright.records import RunnerFuture, RunnerInput

_STEPS = ("f_create_session", "f_upload_module", "f_alloc_argument", "f_run_evaluator", "f_cleanup")


@runners.register("rpc")
@dataclass(eq=False)
class RPCRunner(Runner):
    """Measures on the servers of a tracker that have a key, all of them or `max_workers` a node.

    Without functions of one's own, results are compared with the untransformed program as other
    runners do. The functions `f_*` get a session on the server first, and are imported there by
    name; `session_task` lists what each of them takes.
    """

    rpc_config: RPCConfig | None = None
    evaluator_config: EvaluatorConfig | None = None
    cooldown_sec: float = 0.0
    alloc_repeat: int = 1
    f_create_session: Hook | None = None
    f_upload_module: Hook | None = None
    f_alloc_argument: Hook | None = None
    f_run_evaluator: Hook | None = None
    f_cleanup: Hook | None = None
    max_workers: int | None = None
    initializer: Hook | None = None

    def __post_init__(self) -> None:
        check_positive("RPCRunner", alloc_repeat=self.alloc_repeat)
        config = self.rpc_config = (self.rpc_config or RPCConfig()).resolved()
        settings = RunnerSettings(
            owner="RPCRunner",
            timeout_sec=config.session_timeout_sec,
            seed=secrets.randbits(31),
            device_type="llvm",
            evaluator_config=self.evaluator_config or EvaluatorConfig(),
            cooldown_sec=self.cooldown_sec,
            alloc_repeat=self.alloc_repeat,
            session_hooks=names_of("RPCRunner", {name: getattr(self, name) for name in _STEPS}),
            session_config=config,
            initializer=names_of("RPCRunner", {"initializer": self.initializer}).get("initializer"),
        )
        key = str(config.tracker_key)
        # Whoever gives servers a key says that they are alike: nothing else is asked of them.
        place = DevicePlace("rpc", key, lambda facts: True, resource_of(key), self.max_workers)
        self._devices = Devices(config.address, settings, place, FleetLimits(calibrate_every=0))

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """One future for each input, in order; they come as servers are done."""
        return [self._devices.submit(each) for each in runner_inputs]

    def close(self) -> None:
        """End the actors."""
        self._devices.close()
