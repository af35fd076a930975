"""How measuring scales: on a Ray cluster of this machine, and on a thousand simulated devices.

    python benchmarks/scale_ray.py [trials_N] [simulated_1000] [kills] [--json FILE]

- `trials_N`: trials a second with 1, 2, 4 and 8 measuring actors whose kernels sleep, as a share of
  N times the rate of one; and the tuner's own time for each trial.
- `simulated_1000`: the same scheduler in simulated time on the durations of a recorded tuning run:
  1,000 devices, 1 % of nodes lost an hour, 5 % of them slow.
- `kills`: random actors and nodes die during a run; every trial has to come back.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tilewright import te
from tilewright.fleet.ray_runner import RayRunner
from tilewright.fleet.simulation import Faults, RecordedTrial, SimulatedCluster, shuffled, simulate
from tilewright.ir import as_module
from tilewright.measure import EvaluatorConfig, LocalBuilder
from tilewright.records import BuilderInput, RunnerInput, args_info_of
from tilewright.target import Target
from tilewright.testing import fleet_hooks

ACTORS = (1, 2, 4, 8)
TRIALS_AN_ACTOR = 16
SLEEP_MS = 1000.0  # about as long as a trial takes under the protocols for other machines
KILLS = 50
RECORDED = Path(__file__).with_name("recorded_trials.json")  # [device seconds, result] of each
STORE_BYTES = 80 << 20


def sleeping_candidate() -> RunnerInput:
    """A small kernel, built once; how it is timed is another function's business."""
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    mod = as_module(te.create_prim_func([a, b]))
    builder = LocalBuilder(max_workers=1)
    (built,) = builder.build([BuilderInput(mod, Target("llvm"))])
    builder.close()
    return RunnerInput(
        built.artifact_path or "", "llvm", args_info_of(mod), artifact=built.artifact
    )


class LocalCluster:
    """Nodes on this machine with such boards."""

    def __init__(self, nodes: int, boards: dict[str, int]) -> None:
        import ray
        from ray.cluster_utils import Cluster

        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        self._ray = ray
        options = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
        self._options = {**options, "resources": boards}
        head = {**options, "include_dashboard": False}
        self.nodes = Cluster(initialize_head=True, head_node_args=head)
        self.added = [self.nodes.add_node(**self._options) for _ in range(nodes)]
        ray.init(self.nodes.address, log_to_driver=False, logging_level="error")

    def replace_node(self, chosen: random.Random) -> None:
        """Kill a node and add another one."""
        lost = self.added.pop(chosen.randrange(len(self.added)))
        self.nodes.remove_node(lost, allow_graceful=False)
        self.added.append(self.nodes.add_node(**self._options))

    def close(self) -> None:
        self._ray.shutdown()
        self.nodes.shutdown()


def sleeping_runner(board: str, milliseconds: float) -> RayRunner:
    """A runner whose kernels sleep."""
    return RayRunner(
        board=board,
        evaluator_config=EvaluatorConfig(min_repeat_ms=milliseconds),
        f_run_evaluator=fleet_hooks.evaluate_asleep,
        calibrate_every=0,
    )


def seconds_of(runner: RayRunner, candidates: list[RunnerInput]) -> float:
    """How long it takes until all results are there."""
    start = time.perf_counter()
    for future in runner.run(candidates):
        future.result()
    return time.perf_counter() - start


def trials() -> dict[str, Any]:
    """Rows `trials_1` to `trials_8`."""
    candidate = sleeping_candidate()
    rows: dict[str, dict[str, float]] = {}
    cluster = LocalCluster(1, {f"boards_{actors}": actors for actors in ACTORS})
    for actors in ACTORS:
        runner = sleeping_runner(f"boards_{actors}", SLEEP_MS)
        while seconds_of(runner, [candidate] * actors) > 1.5e-3 * SLEEP_MS:
            pass  # not all actors and their workers have started
        count, own = TRIALS_AN_ACTOR * actors, time.thread_time()
        secs = seconds_of(runner, [candidate] * count)
        own = time.thread_time() - own
        rows[f"trials_{actors}"] = {
            "trials_a_second": count / secs,
            "of_linear": count / secs / actors / rows["trials_1"]["trials_a_second"]
            if rows
            else 1.0,
            "tuner_ms": 1e3 * own / count,
        }
        runner.close()
    cluster.close()
    return rows


def simulated() -> dict[str, Any]:
    """Row `simulated_1000`."""
    recorded = [RecordedTrial(*each) for each in json.loads(RECORDED.read_text())]
    tuners = shuffled(recorded, 96, 64 * 160)
    quiet = simulate(tuners, SimulatedCluster(nodes=1000, devices_a_node=1))
    faults = Faults(lost_an_hour=0.01, slow_share=0.05)
    start = time.perf_counter()
    cluster = SimulatedCluster(nodes=1000, devices_a_node=1, faults=faults, seed=1)
    found = simulate(tuners, cluster)
    return {
        "simulated_1000": {
            "trials": sum(map(len, tuners)),
            "efficiency": found.efficiency,
            "efficiency_without_faults": quiet.efficiency,
            "simulated_hours": found.elapsed / 3600,
            "lost_nodes": found.lost_nodes,
            "devices_set_aside": len(found.notes),
            "trials_lost": sum(map(len, tuners)) - sum(map(len, found.results)),
            "same_results": found.results == quiet.results,
            "scheduler_us_a_trial": 1e6 * (time.perf_counter() - start) / sum(map(len, tuners)),
        }
    }


def kills() -> dict[str, Any]:
    """Row `kills`: each kill hits a random actor, one in five a whole node."""
    candidate, chosen = sleeping_candidate(), random.Random(1)
    cluster = LocalCluster(2, {"board": 2})
    runner = sleeping_runner("board", 50)
    done, found = threading.Event(), {"actors": 0, "nodes": 0, "trials": 0, "failed": 0}

    def measure() -> None:
        while not done.is_set():
            results = [future.result() for future in runner.run([candidate] * 16)]
            found["trials"] += len(results)
            found["failed"] += sum(result.run_secs is None for result in results)

    thread = threading.Thread(target=measure)
    thread.start()
    while found["actors"] + found["nodes"] < KILLS and thread.is_alive():
        time.sleep(chosen.uniform(0.2, 1.0))
        if found["nodes"] * 5 <= found["actors"]:  # nodes can be added by this thread only
            cluster.replace_node(chosen)
            found["nodes"] += 1
        else:
            found["actors"] += fleet_hooks.kill_an_actor(chosen)
    goes_on = thread.is_alive()
    done.set()
    thread.join()
    runner.close()
    cluster.close()
    return {"kills": {**found, "goes_on": goes_on}}


ROWS = {"trials_N": trials, "simulated_1000": simulated, "kills": kills}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name in given.rows:
        if name not in ROWS:
            sys.exit(f"{name}: expected one of {', '.join(ROWS)}")
        for row, figures in ROWS[name]().items():
            found[row] = figures
            shown = ", ".join(
                f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in figures.items()
            )
            print(f"{row}: {shown}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
