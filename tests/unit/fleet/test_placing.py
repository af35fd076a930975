"""Who gets what on a real cluster: cores, GPUs, named boards, each by one actor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import wait

import pytest
from tests.unit.fleet.conftest import RayCluster

from tilewright.errors import MachineError, TuneError
from tilewright.fleet.cluster import Claim, RayConnection, connect
from tilewright.fleet.ray_builder import RayBuilder
from tilewright.fleet.ray_runner import DevicePlace, RayRunner
from tilewright.ir import IRModule
from tilewright.records import BuilderInput, RunnerInput
from tilewright.target import Target
from tilewright.testing import fleet_hooks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    # Ray leaves files open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
MakeInput = Callable[..., RunnerInput]


@pytest.fixture
def cluster(ray_cluster: RayCluster) -> Iterator[RayConnection]:
    connection = connect(ray_cluster.address)
    yield connection
    connection.disconnect()


def test_a_device_has_one_runner_at_a_time(
    cluster: RayConnection, ray_cluster: RayCluster, built: MakeInput
) -> None:
    first = RayRunner(ray_cluster.address, board="board")
    assert first.run([built()])[0].result().run_secs
    second = RayRunner(ray_cluster.address, board="board")
    (waiting,) = second.run([built()])
    assert first.run([built()])[0].result().run_secs
    assert not waiting.done()
    first.close()
    assert waiting.result().run_secs
    second.close()


def test_builders_are_on_nodes_with_a_resource(
    cluster: RayConnection, ray_cluster: RayCluster, product: IRModule
) -> None:
    node = ray_cluster.add_node(resources={"compile": 1})
    builder = RayBuilder(ray_cluster.address, resources={"compile": 1})
    (result,) = builder.build([BuilderInput(product, Target("llvm"))])
    assert result.artifact is not None, result.error_msg
    assert sum(work.devices for work in builder.node_work()) == 1
    builder.close()
    ray_cluster.nodes.remove_node(node)


def test_no_node_has_the_resource_of_builders(
    cluster: RayConnection, ray_cluster: RayCluster, product: IRModule
) -> None:
    builder = RayBuilder(ray_cluster.address, resources={"fast": 2})
    with pytest.raises(TuneError) as caught:
        builder.build([BuilderInput(product, Target("llvm"))])
    text = "RayBuilder: no node of the Ray cluster has a core to build on, with 2 of 'fast'"
    assert str(caught.value) == text
    builder.close()


def test_each_gpu_has_one_actor(
    cluster: RayConnection, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "98,99")  # Ray believes that they are there
    added = ray_cluster.add_node(num_gpus=2)
    place = DevicePlace("cuda", "cuda", lambda facts: True)
    claims = [claim for node in cluster.nodes() for claim in place.claims(node)]
    assert [claim.gpus for claim in claims] == [1, 1]
    claims.append(Claim(claims[0].node, 2, gpus=1))  # one too many: it waits
    actors = [cluster.start(fleet_hooks.VisibleGpus, b"", claim) for claim in claims]
    seen = [cluster.call(actor, "", b"", []) for actor in actors]
    done, waiting = wait(seen, timeout=0)
    while len(done) < 2:
        done, waiting = wait(seen, timeout=0.1)
    assert {each.result() for each in done} == {b"98", b"99"}
    (last,) = waiting
    cluster.kill(next(actor for actor, each in zip(actors, seen, strict=True) if each in done))
    assert last.result() in (b"98", b"99")
    for actor in actors:
        cluster.kill(actor)
    ray_cluster.nodes.remove_node(added)


def test_gpus_that_are_declared_and_not_there(
    cluster: RayConnection, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "98,99")
    added = ray_cluster.add_node(num_gpus=2)
    runner = RayRunner(ray_cluster.address, target="cuda -arch=sm_90")
    text = r"^no node runs cuda;.*: node \S+ is not used: it cannot run cuda: "
    with pytest.raises(MachineError, match=text):
        runner.require_device()
    runner.close()
    ray_cluster.nodes.remove_node(added)


def test_no_node_declares_a_gpu(cluster: RayConnection, ray_cluster: RayCluster) -> None:
    runner = RayRunner(ray_cluster.address, target="cuda -arch=sm_90")
    with pytest.raises(TuneError) as caught:
        runner.require_device()
    assert str(caught.value) == "RayRunner: no node of the Ray cluster has a GPU"
    runner.close()
