"""Rows of `scale.py` about measuring on many machines: a Ray cluster here, and a simulated one."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import random
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from harness import Report, Row

from tilewright import te
from tilewright.database import PostgresDatabase
from tilewright.errors import TilewrightError
from tilewright.fleet.ray_builder import RayBuilder
from tilewright.fleet.ray_runner import RayRunner
from tilewright.fleet.simulation import Faults, RecordedTrial, SimulatedCluster, shuffled, simulate
from tilewright.ir import as_module
from tilewright.measure import EvaluatorConfig, LocalBuilder
from tilewright.records import BuilderInput, RunnerInput, TuningRecord, args_info_of
from tilewright.target import Target
from tilewright.testing import fleet_hooks
from tilewright.testing.postgres_server import PostgresServer, postgres_server, why_missing
from tilewright.tune.api import tune_tir
from tilewright.workloads.configs import create_te_workload

ACTORS = (1, 2, 4, 8)
TRIALS_AN_ACTOR = 16
SLEEP_MS = 1000.0  # about as long as a trial takes under the protocols for other machines
QUICK_SLEEP_MS = 250.0
LEAST_EFFICIENCY = 0.85  # of the simulation
KILLS, QUICK_KILLS = 50, 10
RECORDED = Path(__file__).with_name("recorded_trials.json")  # [device seconds, result] of each
STORE_BYTES = 80 << 20
TOKEN = secrets.token_hex(32)  # of all clusters: Ray reads it once a process

T = TypeVar("T")


class LocalCluster:
    """Nodes on this machine with such boards."""

    def __init__(self, nodes: int, boards: dict[str, int]) -> None:
        import ray
        from ray.cluster_utils import Cluster

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


def why_no_ray() -> str:
    """Why there can be no cluster here; empty if there can."""
    if importlib.util.find_spec("ray") is None:
        return "needs Ray: pip install 'tilewright[ray]'"
    # A token of our own, before Ray is imported: it would look for one of the user's.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)
    return ""


def sleeping_runner(board: str, milliseconds: float) -> RayRunner:
    """A runner whose kernels sleep."""
    return RayRunner(
        board=board,
        evaluator_config=EvaluatorConfig(min_repeat_ms=milliseconds),
        f_run_evaluator=fleet_hooks.evaluate_asleep,
        calibrate_every=0,
    )


# --- trials_N ------------------------------------------------------------------------------------


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


def seconds_of(runner: RayRunner, candidates: list[RunnerInput]) -> float:
    """How long it takes until all results are there."""
    start = time.perf_counter()
    for future in runner.run(candidates):
        future.result()
    return time.perf_counter() - start


def trials(report: Report, *, quick: bool) -> None:
    """Rows `trials_1` to `trials_8`."""
    if why_no_ray():
        return report.skip("trials_N", why_no_ray())
    candidate, milliseconds = sleeping_candidate(), QUICK_SLEEP_MS if quick else SLEEP_MS
    rate_of_one = None
    with closing(LocalCluster(1, {f"boards_{actors}": actors for actors in ACTORS})):
        for actors in ACTORS:
            with closing(sleeping_runner(f"boards_{actors}", milliseconds)) as runner:
                while seconds_of(runner, [candidate] * actors) > 1.5e-3 * milliseconds:
                    pass  # not all actors and their workers have started
                count, own, all_ = TRIALS_AN_ACTOR * actors, time.thread_time(), os.times()
                rate = count / seconds_of(runner, [candidate] * count)
            rate_of_one = rate_of_one or rate
            own, process = time.thread_time() - own, _processor_secs() - _total(all_)
            note = (
                f"kernels sleep for {milliseconds:g} ms; {rate / actors / rate_of_one:.2f} of "
                f"linear; a trial takes {1e3 * own / count:.2f} ms of the tuner's thread, "
                f"{1e3 * process / count:.1f} ms of its process"
            )
            linear = actors * rate_of_one
            report.add(Row(f"trials_{actors}", rate, linear, "linear", "1/s", note))


def _processor_secs() -> float:
    return _total(os.times())


def _total(times: os.times_result) -> float:
    return times.user + times.system


# --- simulated_1000 ------------------------------------------------------------------------------


def simulated(report: Report, *, quick: bool) -> None:
    """Row `simulated_1000`."""
    recorded = [RecordedTrial(*each) for each in json.loads(RECORDED.read_text())]
    tuners = shuffled(recorded, 96, 64 * (16 if quick else 160))
    quiet = simulate(tuners, SimulatedCluster(nodes=1000, devices_a_node=1))
    faults = Faults(lost_an_hour=0.01, slow_share=0.05)
    start = time.perf_counter()
    cluster = SimulatedCluster(nodes=1000, devices_a_node=1, faults=faults, seed=1)
    found = simulate(tuners, cluster)
    count = sum(map(len, tuners))
    each = 1e6 * (time.perf_counter() - start) / count
    if found.results != quiet.results or found.given_up:
        raise AssertionError("faults lost a trial, or changed a result")
    note = (
        f"{count:,} trials in {found.elapsed / 3600:.2f} simulated hours, none lost, all results "
        f"as without faults ({quiet.efficiency:.3f}); {found.lost_nodes} nodes lost, "
        f"{len(found.notes)} slow ones set aside; {each:.0f} us of the scheduler a trial"
    )
    row = Row("simulated_1000", found.efficiency, LEAST_EFFICIENCY, "at least", "", note)
    report.add(row)


# --- kills ---------------------------------------------------------------------------------------


class NotedDatabase(PostgresDatabase):
    """Notes what was acknowledged: the records of transactions that have ended, once each."""

    def __init__(self, url: str, acknowledged: Counter[str]) -> None:
        self._acknowledged = acknowledged
        self._given: list[TuningRecord] = []
        super().__init__(url)

    def commit_tuning_records(self, records: Iterable[TuningRecord]) -> int:
        given = list(records)

        def commit() -> int:
            self._given += given
            return super(NotedDatabase, self).commit_tuning_records(given)

        return self.atomically(commit)

    def atomically(self, work: Callable[[], T]) -> T:
        if self._store.in_transaction:
            return super().atomically(work)

        def from_the_beginning() -> T:  # transactions are repeated after failures
            self._given = []
            return work()

        made = super().atomically(from_the_beginning)
        self._acknowledged.update(map(key_of, self._given))
        return made


def key_of(record: TuningRecord) -> str:
    """A record with the figures that were acknowledged, which a final keeps beside its own."""
    first = record.extra.get("first_run_secs") or list(record.run_secs or ())
    names = ("candidate_hash", "seed", "round")
    return json.dumps([*(record.extra.get(name) for name in names), first])


@dataclass
class TuningUnderFire:
    """Tunes one thing after the other until it is told to end; begins again after an error."""

    url: str
    acknowledged: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    runs: int = 0
    is_done: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        """Be a tuner."""
        while not self.is_done.is_set():
            self.runs += 1
            try:
                self._tune()
            except TilewrightError as error:
                self.errors.append(str(error))

    def _tune(self) -> None:
        with ExitStack() as closing_:
            database = closing_.enter_context(closing(NotedDatabase(self.url, self.acknowledged)))
            builder = closing_.enter_context(closing(RayBuilder(max_workers=1)))
            runner = closing_.enter_context(closing(sleeping_runner("board", 50)))
            tune_tir(
                create_te_workload("GMM", self.runs % 5), "llvm", None, 48, num_trials_per_iter=8,
                builder=builder, runner=runner, database=database, seed=self.runs, console=False,
                cost_model="random",
            )  # fmt: skip


def kills(report: Report, *, quick: bool) -> None:
    """Row `kills`: most hit an actor, some a node, some the server of the database."""
    problem = why_no_ray() or why_missing()
    if problem:
        return report.skip("kills", problem)
    logging.getLogger("tilewright").setLevel(logging.ERROR)
    count = QUICK_KILLS if quick else KILLS
    with closing(LocalCluster(2, {"board": 2})) as cluster, postgres_server() as server:
        tuning = TuningUnderFire(server.new_database())
        thread = threading.Thread(target=tuning.go_on)
        thread.start()
        killed = kill_at_random(count, cluster, server, tuning)
        alive = thread.is_alive()
        tuning.is_done.set()
        thread.join()
        with closing(PostgresDatabase(tuning.url)) as database:
            found = Counter(map(key_of, database.get_all_tuning_records()))
    check(alive, tuning, found)
    hit = ", ".join(f"{number} {what}" for what, number in sorted(killed.items()))
    note = (
        f"{hit}; {sum(tuning.acknowledged.values())} records acknowledged in {tuning.runs} runs, "
        f"none lost, none doubled; {len(tuning.errors)} runs ended with one line"
    )
    report.add(Row("kills", count, None, "-", "", note))


def kill_at_random(
    count: int, cluster: LocalCluster, server: PostgresServer, tuning: TuningUnderFire
) -> Counter[str]:
    """So many kills; each waits for a record more, so that all of them hit tuning."""
    chosen, killed = random.Random(1), Counter[str]()
    while killed.total() < count:
        time.sleep(chosen.uniform(0.2, 1.0))
        what = chosen.choices(["actors", "nodes", "servers"], [6, 2, 2])[0]
        if what == "nodes":  # only the thread that started them can add others
            cluster.replace_node(chosen)
        elif what == "servers":
            server.stop(signal.SIGKILL)
            server.start()
        elif not fleet_hooks.kill_an_actor(chosen):
            continue
        killed[what] += 1
        wait_for_a_record(tuning)
    return killed


def wait_for_a_record(tuning: TuningUnderFire) -> None:
    """Until one more is acknowledged."""
    known, give_up = tuning.acknowledged.total(), time.monotonic() + 120
    while tuning.acknowledged.total() == known:
        if time.monotonic() > give_up:
            raise AssertionError(f"tuning does not go on: {tuning.errors[-1:]}")
        time.sleep(0.05)


def check(alive: bool, tuning: TuningUnderFire, found: Counter[str]) -> None:
    """All that was acknowledged is there, once, and all errors are one line."""
    lost = tuning.acknowledged - found
    doubled = [key for key, number in found.items() if number > 1]
    texts = [text for text in tuning.errors if "\n" in text]
    if not alive or lost or doubled or texts:
        raise AssertionError(f"{alive=}, {len(lost)} lost, {len(doubled)} doubled, {texts[:1]}")
