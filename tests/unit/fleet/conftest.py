"""A Ray cluster of two nodes on this machine, for all tests of a file that need one."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tilewright import te
from tilewright.ir import IRModule, as_module
from tilewright.measure import LocalBuilder
from tilewright.records import BuilderInput, RunnerInput, args_info_of
from tilewright.target import Target

STORE_BYTES = 80 << 20  # the least that Ray takes
TOKEN = secrets.token_hex(32)  # Ray reads it once a process


def unused_port() -> int:
    """Where nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether somebody does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class RayCluster:
    """A cluster that this process has joined; it can lose nodes and get others."""

    nodes: Any
    second: Any = None

    @property
    def address(self) -> str:
        return str(self.nodes.address)

    @property
    def tracker(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    def add_node(self, **options: Any) -> Any:
        return self.nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **options)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    # A token of our own, before Ray looks for one: it would write one into the home of the user.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    utilities = pytest.importorskip("ray.cluster_utils")
    options = {
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
        "resources": {"rpc:laptop": 1, "board": 1},
        "_system_config": {"local_fs_capacity_threshold": 0.01},  # nothing spills to the disk
    }
    with ExitStack() as closing:
        nodes = utilities.Cluster(initialize_head=True, head_node_args=options)
        closing.callback(nodes.shutdown)
        cluster = RayCluster(nodes)
        cluster.second = cluster.add_node()
        ray.init(cluster.address, log_to_driver=False, logging_level="error")
        closing.callback(ray.shutdown)
        yield cluster


@pytest.fixture(scope="session")
def product() -> IRModule:
    """A small matrix product."""
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return as_module(te.create_prim_func([a, b, c]))


@pytest.fixture(scope="session")
def built(product: IRModule) -> Callable[..., RunnerInput]:
    """The product as a runner takes it; built once."""
    builder = LocalBuilder(max_workers=1)
    (result,) = builder.build([BuilderInput(product, Target("llvm"))])
    assert result.artifact is not None, result.error_msg
    builder.close()

    def make(**hints: Any) -> RunnerInput:
        path = result.artifact_path or ""
        infos = args_info_of(product)
        return RunnerInput(path, "llvm", infos, artifact=result.artifact, **hints)

    return make
