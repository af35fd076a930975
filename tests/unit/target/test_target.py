from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import pytest

from tilewright.errors import TargetError
from tilewright.target import Target, list_kinds, list_tags
from tilewright.target.cpu import CpuDescription

RTX_LIMITS = {
    "max_num_threads": 1024,
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "registers_per_block": 65536,
    "thread_warp_size": 32,
}


def test_bare_llvm_is_this_machine() -> None:
    target = Target("llvm")
    assert target.kind.name == "llvm"
    assert target.keys == ("cpu",)
    assert dict(target.attrs) == {}
    assert isinstance(target.cpu, CpuDescription)
    assert target.cpu.is_host
    assert target.mcpu
    assert 1 <= target.num_cores <= target.cpu.logical_cores
    assert target.vector_bits in (128, 256, 512)
    caches = target.cpu.caches
    assert 4096 <= caches.l1d_bytes <= caches.l2_bytes
    assert caches.line_bytes >= 32


@pytest.mark.parametrize(
    "text",
    [
        "llvm -mcpu=icelake-server -num-cores=2",
        "llvm --mcpu=icelake-server --num-cores=2",
        "llvm -mcpu icelake-server --num-cores 2",
        "llvm -keys=cpu -num-cores=2 -mcpu=icelake-server",
    ],
)
def test_all_spellings_of_options_are_equal(text: str) -> None:
    expected = Target({"kind": "llvm", "mcpu": "icelake-server", "num-cores": 2})
    assert Target(text) == expected
    assert hash(Target(text)) == hash(expected)


@pytest.mark.parametrize(
    "given", ["llvm -mcpu=native", "llvm --mcpu native", {"kind": "llvm", "mcpu": "native"}]
)
def test_native_is_this_machine(given: str | dict[str, object]) -> None:
    target = Target(given)
    assert target == Target("llvm")
    assert target.cpu.is_host
    assert "mcpu" not in target.export()  # a record of it must not mean its reader's machine


def test_native_keeps_the_other_options() -> None:
    target = Target("llvm -mcpu=native -num-cores=3 -mattr=-avx512f")
    assert target == Target("llvm -num-cores=3 -mattr=-avx512f")
    assert Target("cuda -arch=sm_90", host="llvm -mcpu=native").host == Target("llvm")


def test_native_of_another_kind_of_machine() -> None:
    with pytest.raises(TargetError) as caught:
        Target("llvm -mcpu=native -mtriple=riscv64-linux-gnu")
    here = Target("llvm").cpu.triple
    expected = f"-mcpu=native is this machine ({here}), but -mtriple says riscv64-linux-gnu"
    assert str(caught.value) == expected


def test_other_cpu_has_its_own_features_and_default_sizes() -> None:
    target = Target("llvm -mcpu=haswell -num-cores=8")
    assert {"avx2", "fma"} <= target.features
    assert "avx512f" not in target.features
    assert target.vector_bits == 256
    assert target.num_cores == 8
    assert target.cpu.caches.l1d_bytes == 32768
    assert Target("llvm -mcpu=haswell").num_cores == 1


def test_sizes_can_be_given() -> None:
    target = Target({"kind": "llvm", "mcpu": "haswell", "l2_cache_size_bytes": 262144})
    assert target.cpu.caches.l2_bytes == 262144


def test_export_is_what_tuning_records_hold() -> None:
    assert Target("llvm -num-cores=4").export() == {
        "keys": ["cpu"],
        "kind": "llvm",
        "num-cores": 4,
        "tag": "",
    }
    assert list(Target("llvm -num-cores=4").export()) == ["keys", "kind", "num-cores", "tag"]


def test_string_form() -> None:
    target = Target({"kind": "llvm", "num-cores": 4, "mcpu": "haswell", "mattr": ["+avx2", "-fma"]})
    assert str(target) == "llvm -keys=cpu -mattr=+avx2,-fma -mcpu=haswell -num-cores=4"
    assert repr(Target("cuda", host="llvm")) == (
        "Target('cuda -keys=cuda,gpu -arch=sm_80 -max_num_threads=1024 "
        "-max_shared_memory_per_block=49152 -max_threads_per_block=1024 "
        "-registers_per_block=65536 -thread_warp_size=32', host='llvm -keys=cpu')"
    )


@pytest.mark.parametrize(
    "given",
    [
        "llvm",
        "llvm -num-cores=4 -mattr=+avx2,-fma",
        "cuda",
        "c",
        *list_tags()[:1],
        *list_tags()[8:],
    ],
)
def test_round_trips(given: str) -> None:
    target = Target(given)
    assert Target(target.export()) == target
    assert Target(str(target), host=target.host) == target
    assert Target(target) == target
    copy = pickle.loads(pickle.dumps(target))
    assert copy == target
    assert hash(copy) == hash(target)


def test_cuda_defaults() -> None:
    target = Target("cuda")
    assert target.keys == ("cuda", "gpu")
    assert dict(target.attrs) == {
        "arch": "sm_80",
        "max_num_threads": 1024,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "registers_per_block": 65536,
        "thread_warp_size": 32,
    }
    assert not target.is_cpu


@pytest.mark.parametrize(
    ("tag", "attrs"),
    [
        ("aws/cpu/c5.9xlarge", {"mcpu": "skylake-avx512", "num-cores": 18}),
        ("aws/cpu/c5.24xlarge", {"mcpu": "cascadelake", "num-cores": 48}),
        ("nvidia/geforce-rtx-3070", {"arch": "sm_86", **RTX_LIMITS}),
        ("nvidia/geforce-rtx-2080", {"arch": "sm_75", **RTX_LIMITS}),
        (
            "nvidia/nvidia-a100",
            {"arch": "sm_80", "l2_cache_size_bytes": 41943040, **RTX_LIMITS},
        ),
    ],
)
def test_tags(tag: str, attrs: dict[str, object]) -> None:
    assert dict(Target(tag).attrs) == attrs


def test_a_tag_is_only_a_name() -> None:
    named = Target({"tag": "aws/cpu/c5.large"})
    assert named.tag == "aws/cpu/c5.large"
    assert named.keys == ("x86", "cpu")
    assert named == Target("aws/cpu/c5.large")
    assert Target({"tag": "aws/cpu/c5.large", "num-cores": 3}).num_cores == 3


def test_host() -> None:
    target = Target("nvidia/jetson-agx-xavier")
    assert target.host is not None
    assert target.host.num_cores == 8
    assert target.host.features == {"neon"}
    assert Target("cuda").host is None
    assert Target("cuda").with_host("llvm -num-cores=2") == Target("cuda", "llvm -num-cores=2")
    assert Target("cuda", host="llvm") != Target("cuda")


def test_scopes_nest() -> None:
    outer, inner = Target("llvm"), Target("cuda")
    assert Target.current() is None
    with outer:
        with inner:
            assert Target.current() is inner
        assert Target.current(allow_none=False) is outer
    assert Target.current() is None


def test_scopes_do_not_leak_into_other_threads() -> None:
    seen: list[Target | None] = []
    with Target("llvm"):
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_fingerprint_tells_machines_apart_and_ignores_names() -> None:
    haswell = Target("llvm -mcpu=haswell -num-cores=2")
    assert haswell.fingerprint == "llvm;cpu=haswell;cores=2;isa=sse4.1+sse4.2+avx+avx2+fma+f16c"
    assert haswell.fingerprint != Target("llvm -mcpu=haswell -num-cores=4").fingerprint
    tagged = Target({"tag": "nvidia/nvidia-t4"})
    assert tagged.fingerprint == Target("nvidia/nvidia-t4").fingerprint
    assert tagged.fingerprint.startswith("cuda;arch=sm_75;")


def test_kinds() -> None:
    assert list_kinds() == ["llvm", "c", "cuda", "vta"]


BAD = [
    ("", "a target cannot be empty; write for example 'llvm'"),
    ("lvm", "unknown target kind 'lvm'; did you mean 'llvm'?"),
    ("sparc", "unknown target kind 'sparc'; known: c, cuda, llvm, vta"),
    (
        "llvm -numcores=3",
        "target kind 'llvm' has no attribute 'numcores'; did you mean 'num-cores'?",
    ),
    (
        {"kind": "cuda", "max_thread_per_block": 3},
        "target kind 'cuda' has no attribute 'max_thread_per_block'; "
        "did you mean 'max_threads_per_block'?",
    ),
    (
        "nvidia/nvidia-a10000",
        "unknown target tag 'nvidia/nvidia-a10000'; did you mean 'nvidia/nvidia-a100'?",
    ),
    (
        "aws/cpu/c5.large -num-cores=2",
        "the tag 'aws/cpu/c5.large' takes no options; write the target as a dictionary",
    ),
    ("llvm num-cores", "expected an option such as -num-cores=4 in the target, got 'num-cores'"),
    ("llvm -num-cores=1 -num-cores=2", "the target gives 'num-cores' twice"),
    (
        "llvm -num-cores=x",
        "attribute 'num-cores' of target kind 'llvm' must be a whole number of at least 1, got 'x'",
    ),
    (
        {"kind": "c", "num-cores": True},
        "attribute 'num-cores' of target kind 'c' must be a whole number of at least 1, got True",
    ),
    (
        {"kind": "llvm", "mattr": "+avx2"},
        "attribute 'mattr' of target kind 'llvm' must be a list of texts, got '+avx2'",
    ),
    ({"num-cores": 2}, "a target needs an entry 'kind' or 'tag', got {'num-cores': 2}"),
    ({"kind": 1}, "the kind of a target must be a text, got 1"),
    ({"kind": "llvm", "tag": 1}, "the tag of a target must be a text, got 1"),
    ({"kind": "llvm", "keys": "cpu"}, "the keys of a target must be a list of texts, got 'cpu'"),
    (3, "a target is a text, a dictionary or a Target, got 3"),
    ({"kind": "cuda", "host": 3}, "the host of a target must itself be a target, got 3"),
    ("llvm -mattr=avx2", "mattr item 'avx2' must start with '+' or '-', as '+avx2'"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_mistakes_are_named(given: str | dict[str, object], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target(given)
    assert str(caught.value) == message


def test_host_must_be_a_cpu() -> None:
    with pytest.raises(TargetError, match="must be a CPU target, got 'cuda "):
        Target("cuda", host="cuda")


def test_a_gpu_has_no_cpu() -> None:
    with pytest.raises(TargetError, match="is not a CPU; ask its host instead"):
        Target("cuda").num_cores


def test_no_current_target() -> None:
    with pytest.raises(TargetError, match=r"no target is set; pass target=\.\.\."):
        Target.current(allow_none=False)


def test_no_more_cores_than_threads_may_run() -> None:
    code = "from tilewright.target import Target; print(Target('llvm').num_cores)"
    env = {**os.environ, "TILEWRIGHT_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "1"
