"""Which records may be used for which targets."""

from __future__ import annotations

import pytest

from tilewright.database.compatibility import (
    Fit,
    fit,
    fit_of_record,
    identity_of,
    identity_of_record,
    needed_features,
)
from tilewright.database.stored_record import StoredTrace
from tilewright.records import TargetIdentity, TuningRecord, Workload
from tilewright.target import Target
from tilewright.testing.conformance.database import matmul

SAME, COMPATIBLE, NO = Fit.SAME, Fit.COMPATIBLE, None
CUDA = "cuda -max_shared_memory_per_block={shared} -arch={arch}"


def cuda(arch: str, shared: int = 49152) -> str:
    return CUDA.format(arch=arch, shared=shared)


@pytest.mark.parametrize(
    ("measured", "wanted", "expected"),
    [
        ("llvm", "llvm", SAME),
        ("llvm", "c", NO),
        ("llvm", "nvidia/nvidia-a100", NO),
        ("llvm -mcpu=haswell", "llvm -mcpu=haswell", SAME),
        ("llvm -mcpu=haswell", "llvm -mcpu=haswell -num-cores=2", COMPATIBLE),
        ("llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512", COMPATIBLE),
        ("llvm -mcpu=skylake-avx512", "llvm -mcpu=haswell", NO),
        ("llvm -mcpu=cascadelake", "llvm -mcpu=skylake-avx512", NO),  # VNNI
        ("llvm -mcpu=haswell -mattr=-fma", "llvm -mcpu=haswell", COMPATIBLE),
        ("llvm -mcpu=haswell", "llvm -mcpu=haswell -mattr=-fma", NO),
        ("c -mcpu=haswell", "c -mcpu=skylake", COMPATIBLE),
        ("nvidia/nvidia-a100", "nvidia/nvidia-a100", SAME),
        (cuda("sm_80"), cuda("sm_86"), COMPATIBLE),
        (cuda("sm_86"), cuda("sm_80"), NO),
        (cuda("sm_80"), cuda("sm_90a"), COMPATIBLE),
        (cuda("sm_90a"), cuda("sm_90"), NO),
        (cuda("sm_90a"), cuda("sm_100"), NO),
        (cuda("sm_100f"), cuda("sm_103"), COMPATIBLE),
        (cuda("sm_100f"), cuda("sm_120"), NO),
        (cuda("sm_80", shared=166912), cuda("sm_86", shared=49152), NO),
        (cuda("sm_80", shared=49152), cuda("sm_86", shared=101376), COMPATIBLE),
        (cuda("sm_80") + " -thread_warp_size=64", cuda("sm_80"), NO),
        (cuda("volta"), cuda("sm_80"), NO),
    ],
)
def test_rules(measured: str, wanted: str, expected: Fit | None) -> None:
    assert fit(identity_of(Target(measured)), identity_of(Target(wanted))) is expected


def test_what_was_detected_is_written_down() -> None:
    here = Target("llvm")
    identity = identity_of(here)
    assert identity.description["mcpu"] == here.mcpu
    assert identity.description["num-cores"] == here.num_cores
    assert identity.fingerprint == here.fingerprint
    assert Target(identity.description).fingerprint == here.fingerprint


def record(description: dict[str, object] | None, trace: bytes = b"[[],[]]") -> TuningRecord:
    identity = None if description is None else TargetIdentity(description)
    return TuningRecord(StoredTrace(trace), Workload(matmul(8, 8, 8), 0), (1.0,), identity=identity)


def test_records_of_tvm_know_less() -> None:
    """Without the name of a CPU any is meant, with it the rules above apply."""
    anywhere = record({"kind": "llvm", "keys": ["cpu"], "num-cores": 4, "tag": ""})
    assert fit_of_record(anywhere, Target("llvm -mcpu=nehalem")) is COMPATIBLE
    assert fit_of_record(anywhere, Target("c -mcpu=nehalem")) is None
    somewhere = record({"kind": "llvm", "mcpu": "skylake-avx512"})
    assert fit_of_record(somewhere, Target("llvm -mcpu=nehalem")) is None
    assert fit_of_record(somewhere, Target("llvm -mcpu=skylake-avx512")) is SAME
    gpu = record({"kind": "cuda", "arch": "sm_86", "tag": ""})
    assert fit_of_record(gpu, Target("nvidia/geforce-rtx-3070")) is SAME
    assert fit_of_record(gpu, Target("nvidia/geforce-rtx-4090")) is COMPATIBLE


def test_intrinsics_need_their_extensions() -> None:
    """A record that names no CPU still needs what its intrinsics are made of."""
    text = (
        b'[[["GetBlock",[],["C","main"],["b0"]],["Tensorize",["b0"],["dot_16x4_vnni",true],[]]],[]]'
    )
    assert needed_features(StoredTrace(text)) == {"avx512vnni"}
    vnni = record({"kind": "llvm", "keys": ["cpu"]}, text)
    assert fit_of_record(vnni, Target("llvm -mcpu=cascadelake")) is COMPATIBLE
    assert fit_of_record(vnni, Target("llvm -mcpu=skylake-avx512")) is None


def test_unknown_targets() -> None:
    assert fit_of_record(record(None), Target("llvm")) is Fit.UNKNOWN
    assert identity_of_record(record(None)) is None
    assert fit_of_record(record({"kind": "hexagon"}), Target("llvm")) is None
    assert fit_of_record(record({"kind": "llvm", "mcpu": "unheard-of"}), Target("llvm")) is None
