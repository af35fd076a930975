"""What crosses machines is plain bytes, and means the same on the other side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tilewright.codegen.artifact import Artifact
from tilewright.errors import TuneError
from tilewright.fleet.calibration import calibration_program, calibration_secs
from tilewright.fleet.messages import (
    NodeFacts,
    RunOrder,
    artifacts_of,
    facts_of_this_node,
    names_of,
    portable,
)
from tilewright.fleet.ray_runner import fits
from tilewright.records import FailureKind, RunnerInput, RunnerResult, TensorInfo
from tilewright.target import Target
from tilewright.version import __version__

INFOS = (TensorInfo("float32", (4, 4)),)
CANDIDATE = RunnerInput(
    "path", "llvm", INFOS, artifact=Artifact("candidate", b"code"), reference_path="r",
    reference=Artifact("candidate", b"reference"), best_secs=1e-3, seed=5, row_offsets={1: 7},
)  # fmt: skip


def crossed(value: Any) -> Any:
    """A value as the other side gets it."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))


def test_an_order_gives_the_same_input_elsewhere() -> None:
    artifact, reference = artifacts_of(CANDIDATE)
    order = crossed(RunOrder.of(CANDIDATE, [artifact, reference]))
    expected = replace(CANDIDATE, artifact_path=artifact.digest, reference_path=reference.digest)
    assert order.as_input(artifact, reference) == expected


def test_results_come_back_as_they_are() -> None:
    result = RunnerResult((1e-3, 2e-3), checked=True, protocol="p", step_secs={"check": 0.5})
    assert crossed(result) == result
    failed = RunnerResult(None, "no", FailureKind.TIMEOUT)
    assert crossed(failed) == failed


def test_artefacts_keep_their_digest() -> None:
    artifact = Artifact("candidate", b"code", ("main",), (), {"cpu": "znver4"})
    assert crossed(artifact).digest == artifact.digest


def test_a_path_cannot_travel() -> None:
    with pytest.raises(TuneError) as caught:
        artifacts_of(replace(CANDIDATE, artifact=None))
    assert str(caught.value) == (
        "path: only artefacts of our builders can be sent to other machines; build with "
        "LocalBuilder or RayBuilder, without an f_export of your own"
    )


def test_a_function_without_a_name_cannot_travel() -> None:
    with pytest.raises(TuneError) as caught:
        names_of("RayRunner", {"f_cleanup": lambda: None, "initializer": None})
    assert str(caught.value) == (
        "RayRunner: f_cleanup='test_a_function_without_a_name_cannot_travel.<locals>.<lambda>' "
        "cannot be imported by name on another machine; put it into a module that is installed "
        "there"
    )


def test_this_machine_in_words_is_this_machine() -> None:
    here = Target("llvm")
    words = portable(here)
    assert Target(words).fingerprint == here.fingerprint
    assert {"mcpu", "mtriple", "mattr", "num-cores"} <= words.keys()
    other = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
    assert portable(other) == other.export()


def test_nodes_measure_for_what_they_are() -> None:
    facts = facts_of_this_node()
    assert facts.tilewright == __version__
    assert fits(Target("llvm"), facts)
    assert not fits(Target("llvm -mcpu=haswell -num-cores=3"), facts)
    hopper = NodeFacts(__version__, "3.11", {"cuda": "cuda;arch=sm_90a;model=H200"})
    assert fits(Target("nvidia/nvidia-h100"), hopper)
    assert not fits(Target("nvidia/nvidia-a100"), hopper)


def test_the_calibration_kernel_runs() -> None:
    assert 0 < calibration_secs("llvm") < 1
    assert "threadIdx.x" in calibration_program("cuda").script()
