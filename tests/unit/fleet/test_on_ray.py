"""Building and measuring on a real Ray cluster of two nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.unit.fleet.conftest import RayCluster

from tilewright.codegen.artifact import Artifact
from tilewright.errors import MachineError, TuneError
from tilewright.fleet.cluster import connect
from tilewright.fleet.ray_builder import RayBuilder
from tilewright.fleet.ray_runner import RayRunner
from tilewright.fleet.rpc_runner import RPCConfig, RPCRunner
from tilewright.ir import IRModule
from tilewright.measure import Builder, EvaluatorConfig, Runner
from tilewright.records import BuilderInput, FailureKind, RunnerInput
from tilewright.target import Target
from tilewright.testing import fleet_hooks
from tilewright.testing.conformance import builder as builder_suite, runner as runner_suite
from tilewright.testing.fleet_hooks import marker_of_death
from tilewright.tune.api import tune_tir
from tilewright.tune.events import Event, NodeSeen

pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    # Ray leaves files open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MakeInput = Callable[..., RunnerInput]


@pytest.fixture(scope="module")
def builder(ray_cluster: RayCluster) -> Iterator[RayBuilder]:
    """One for all tests; as long as it lives, so does the connection."""
    shared = RayBuilder(ray_cluster.address, max_workers=1)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def runner(ray_cluster: RayCluster) -> Iterator[RayRunner]:
    """It has the CPUs of all nodes; others have boards."""
    shared = RayRunner(ray_cluster.address, seed=1)
    yield shared
    shared.close()


def test_tuning_ends_as_on_one_machine(
    builder: RayBuilder, runner: RayRunner, product: IRModule
) -> None:
    events: list[Event] = []
    database = tune_tir(
        product, "llvm", None, 4, num_trials_per_iter=4, builder=builder, runner=runner,
        database="memory", seed=1, console=False, cost_model="random",
        observers=[events.append],
    )  # fmt: skip
    records = database.get_all_tuning_records()
    assert len(records) == 4
    assert all(record.is_valid and record.extra["checked"] for record in records)
    last = {(e.node, e.phase): e for e in events if isinstance(e, NodeSeen)}
    for phase in ("build", "run"):
        nodes = [seen for (_, which), seen in last.items() if which == phase]
        assert sum(seen.done for seen in nodes) >= 4
        assert all(seen.devices > 0 and seen.busy_secs > 0 for seen in nodes if seen.done)


@pytest.mark.parametrize("check", runner_suite.CHECKS)
def test_it_is_a_runner(check: Callable[..., None], runner: RayRunner, built: MakeInput) -> None:
    bad = replace(built(), artifact=Artifact("candidate", b"no code"))
    check(lambda: runner, [built(), built()], bad)


@pytest.mark.parametrize("check", builder_suite.CHECKS)
def test_it_is_a_builder(check: Callable[..., None], builder: RayBuilder) -> None:
    check(lambda: builder)


def test_a_path_that_means_nothing_elsewhere(runner: RayRunner, built: MakeInput) -> None:
    (future,) = runner.run([replace(built(), artifact=None, artifact_path="own.bin")])
    assert future.result().failure is FailureKind.RUN_ERROR
    assert (future.result().error_msg or "").startswith("RayRunner: own.bin: only artefacts of our")


def test_a_node_builds_for_the_target_of_another(builder: RayBuilder, product: IRModule) -> None:
    haswell = Target("llvm -mcpu=haswell -num-cores=3")
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
    assert haswell.fingerprint != Target("llvm").fingerprint
    results = builder.build([BuilderInput(product, target) for target in (haswell, arm)])
    for name, result in zip((b"haswell", b"cortex-a72"), results, strict=True):
        assert result.artifact is not None, result.error_msg
        assert name in result.artifact.data


def test_what_cannot_be_built_says_why(builder: RayBuilder, product: IRModule) -> None:
    arm = Target("c -mtriple=aarch64-linux-gnu")
    (result,) = builder.build([BuilderInput(product, arm)])
    assert result.artifact is None
    assert result.failure is FailureKind.BUILD_ERROR
    text = result.error_msg or ""
    assert text.startswith("RayBuilder: An exception occurred\n")
    assert "not for 'aarch64-linux-gnu'; build for 'llvm' with" in text


def test_a_killed_actor_loses_no_candidate(
    builder: RayBuilder, ray_cluster: RayCluster, built: MakeInput, caplog: pytest.LogCaptureFixture
) -> None:
    marker_of_death().touch()
    runner = RayRunner(
        ray_cluster.address, f_run_evaluator=fleet_hooks.evaluate_and_die_once, board="board"
    )
    with caplog.at_level(logging.WARNING, "tilewright.measure"):
        futures = runner.run([built() for _ in range(3)])
        assert [future.result().run_secs for future in futures] == [(1.0,)] * 3
    runner.close()
    assert not marker_of_death().exists()
    assert "ended; another one takes its place" in caplog.text


def test_no_node_has_the_target(
    builder: RayBuilder, ray_cluster: RayCluster, built: MakeInput
) -> None:
    target = "llvm -mcpu=haswell -num-cores=3"
    runner = RayRunner(ray_cluster.address, target=target, board="board")
    with pytest.raises(
        MachineError, match=r"^no node runs llvm;cpu=haswell;cores=3;.* there is llvm;"
    ):
        runner.run([built()])[0].result()
    runner.close()


def test_no_node_has_the_board(
    builder: RayBuilder, ray_cluster: RayCluster, built: MakeInput
) -> None:
    runner = RayRunner(ray_cluster.address, board="rasp4")
    with pytest.raises(TuneError) as caught:
        runner.run([built()])[0].result()
    assert str(caught.value) == "RayRunner: no node of the Ray cluster has the resource 'rasp4'"
    runner.close()


def test_an_artefact_is_put_once(builder: RayBuilder, ray_cluster: RayCluster) -> None:
    cluster = connect(ray_cluster.address)
    one, same, other = Artifact("candidate", b"1"), Artifact("candidate", b"1"), Artifact("c", b"2")
    assert cluster.store(one) is cluster.store(same)
    assert cluster.store(one) is not cluster.store(other)
    cluster.disconnect()


def test_a_full_object_store(builder: RayBuilder, ray_cluster: RayCluster) -> None:
    cluster = connect(ray_cluster.address)
    with pytest.raises(MachineError) as caught:
        cluster.store(Artifact("candidate", bytes(200 << 20)))
    assert str(caught.value) == (
        "the object store of the Ray cluster is full; start its nodes with a larger "
        "--object-store-memory, or free some disk space for it to spill to"
    )
    cluster.disconnect()


def test_one_process_has_one_cluster(builder: RayBuilder, ray_cluster: RayCluster) -> None:
    with pytest.raises(TuneError) as caught:
        connect("ray://127.0.0.1:1")
    assert str(caught.value) == (
        f"this process is connected to the Ray cluster at {ray_cluster.address}, so it cannot use "
        "ray://127.0.0.1:1; close what uses the first one"
    )


# --- TVM's names --------------------------------------------------------------------------------


@pytest.fixture
def config(ray_cluster: RayCluster) -> RPCConfig:
    return RPCConfig(*ray_cluster.tracker, "laptop", session_timeout_sec=20)


def test_servers_are_counted(builder: RayBuilder, config: RPCConfig) -> None:
    assert config.count_num_servers() == 1
    other = replace(config, tracker_key="phone")
    assert other.count_num_servers() == 0
    with pytest.raises(
        TuneError, match=r"^no server with the key 'phone' is known to the tracker$"
    ):
        other.count_num_servers(allow_missing=False)


def test_several_runs(builder: RayBuilder, config: RPCConfig, built: MakeInput) -> None:
    runner = Runner.create(
        "rpc", config, alloc_repeat=2, f_run_evaluator=fleet_hooks.evaluate_in_a_session
    )
    assert isinstance(runner, RPCRunner)
    futures = runner.run([built(), built()])
    assert [future.result().run_secs for future in futures] == [(3.0, 3.0)] * 2
    runner.close()


@pytest.mark.slow
def test_functions_that_an_initializer_registers(
    builder: RayBuilder, config: RPCConfig, built: MakeInput
) -> None:
    runner = RPCRunner(
        config,
        EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0),
        f_run_evaluator="fleet_hooks.evaluate",
        f_cleanup="fleet_hooks.cleanup",
        initializer=fleet_hooks.register_functions,
    )
    result = runner.run([built()])[0].result()
    runner.close()
    assert (result.run_secs, result.error_msg) == ((3.0,), None)


STEPS = ("f_create_session", "f_upload_module", "f_alloc_argument", "f_run_evaluator", "f_cleanup")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_an_exception_in_each_step(
    builder: RayBuilder, config: RPCConfig, built: MakeInput, step: str
) -> None:
    runner = RPCRunner(config, **{step: "tilewright.testing.fleet_hooks:fail_in_a_step"})  # type: ignore[arg-type]
    result = runner.run([built()])[0].result()
    runner.close()
    assert result.failure is FailureKind.RUN_ERROR
    text = result.error_msg or ""
    assert text.startswith("RPCRunner: An exception occurred\n")
    assert text.endswith("ValueError: this step always fails\n")


@pytest.mark.slow
def test_a_run_that_does_not_end(
    builder: RayBuilder, ray_cluster: RayCluster, built: MakeInput
) -> None:
    config = RPCConfig(*ray_cluster.tracker, "laptop", session_timeout_sec=1)
    runner = RPCRunner(config, f_run_evaluator=fleet_hooks.evaluate_for_ever)
    result = runner.run([built()])[0].result()
    runner.close()
    assert result.failure is FailureKind.TIMEOUT
    assert result.error_msg == "RPCRunner: Timeout, killed after 1 seconds"


def test_what_is_closed_takes_nothing(
    builder: RayBuilder, ray_cluster: RayCluster, built: MakeInput
) -> None:
    runner = RayRunner(ray_cluster.address)
    (future,) = runner.run([built()])
    runner.close()
    with pytest.raises(TuneError, match=r"^it was closed before this was done$"):
        future.result()
    with pytest.raises(TuneError, match=r"^it is closed; make another builder or runner$"):
        runner.run([built()])


def test_builders_and_runners_by_name(builder: RayBuilder, ray_cluster: RayCluster) -> None:
    made = Builder.create("ray", ray_cluster.address, max_workers=1)
    assert isinstance(made, RayBuilder)
    made.close()
