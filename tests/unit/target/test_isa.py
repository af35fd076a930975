"""Features of CPUs other than this one, as LLVM itself would use them (x86 code generator)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.errors import TargetError
from tilewright.target import isa

TRIPLE = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("cpu", "present", "absent"),
    [
        ("x86-64", {"sse2"}, {"sse4.1", "avx"}),
        ("nehalem", {"sse4.1", "sse4.2"}, {"avx"}),
        ("x86-64-v3", {"avx2", "fma", "f16c"}, {"avx512f", "avxvnni"}),
        ("skylake-avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, {"avx512vnni"}),
        ("cascadelake", {"avx512vnni"}, {"avx512bf16", "avxvnni", "amx-tile"}),
        ("cooperlake", {"avx512vnni", "avx512bf16"}, {"avx512fp16"}),
        ("icelake-server", {"avx512vnni", "avx512vpopcntdq"}, {"avx512bf16"}),
        ("sapphirerapids", {"avx512fp16", "avxvnni", "amx-tile", "amx-int8"}, {"amx-fp16"}),
        ("alderlake", {"avx2", "avxvnni"}, {"avx512f", "avx512vnni"}),
        ("knl", {"avx512f"}, {"avx512bw", "avx512vl"}),
        ("znver3", {"avx2", "fma"}, {"avx512f"}),
    ],
)
def test_features_by_cpu(cpu: str, present: set[str], absent: set[str]) -> None:
    if cpu == isa.host().cpu:
        pytest.skip("this very CPU: its real features are listed, not those of its name")
    features = isa.features_of(cpu, TRIPLE, ())
    assert present <= features
    assert not absent & features


@pytest.mark.parametrize(
    ("listed", "features", "cpu"),
    [
        ("rocketlake", {"avx512f", "avx512fp16", "amx-tile", "amx-fp16"}, "graniterapids"),
        ("icelake-server", {"avx512f", "avx512fp16", "amx-tile"}, "sapphirerapids"),
        ("cascadelake", {"avx512f", "avx512fp16"}, "sapphirerapids"),  # tiles are masked, too
        ("rocketlake", {"avx512f", "avx512vnni"}, "rocketlake"),
        ("emeraldrapids", {"avx512fp16", "amx-tile"}, "emeraldrapids"),
        ("a-cpu-of-tomorrow", {"avx512fp16", "amx-fp16"}, "a-cpu-of-tomorrow"),
        ("znver5", {"avx512f", "avx512bf16"}, "znver5"),
    ],
)
def test_virtual_machines_that_name_an_older_model(
    monkeypatch: pytest.MonkeyPatch, listed: str, features: set[str], cpu: str
) -> None:
    llvm = SimpleNamespace(
        get_host_cpu_name=lambda: listed,
        get_host_cpu_features=lambda: dict.fromkeys(features, True) | {"avx512er": False},
        get_process_triple=lambda: TRIPLE,
    )
    monkeypatch.setattr(isa, "_llvm", lambda: llvm)
    here = isa.host.__wrapped__()
    assert here.cpu == cpu
    assert "avx512er" not in here.features


def test_removing_a_feature_removes_what_stands_on_it() -> None:
    features = isa.features_of("skylake-avx512", TRIPLE, ("-avx512f",))
    assert "avx2" in features
    assert not {name for name in features if name.startswith("avx512")}


def test_adding_a_feature() -> None:
    assert "avx512f" in isa.features_of("haswell", TRIPLE, ("+avx512f",))


def test_mattr_on_this_machine_keeps_the_rest() -> None:
    here = isa.host()
    if "avx512f" not in here.features:
        pytest.skip("needs AVX-512")
    features = isa.features_of(None, None, ("-avx512f",))
    assert here.features - features >= {"avx512f", "avx512bw"}
    assert {"avx2", "bmi2"} <= features


@pytest.mark.parametrize(
    ("features", "bits"), [({"sse2"}, 128), ({"avx"}, 256), ({"avx", "avx512f"}, 512)]
)
def test_vector_bits(features: set[str], bits: int) -> None:
    assert isa.vector_bits(frozenset(features)) == bits


def test_misspelt_cpu() -> None:
    with pytest.raises(TargetError) as caught:
        isa.check_cpu("icelake-servr", TRIPLE)
    assert str(caught.value) == (
        f"LLVM knows no CPU 'icelake-servr' for {TRIPLE}; did you mean 'icelake-server'?"
    )


def test_rare_cpu_is_found_in_the_list_of_llvm() -> None:
    isa.check_cpu("btver2", TRIPLE)


def test_misspelt_feature() -> None:
    with pytest.raises(
        TargetError, match=r"LLVM knows no feature 'avx512-f'.*did you mean 'avx512f'"
    ):
        isa.check_mattr(["+avx512-f"], TRIPLE)


def test_unknown_triple() -> None:
    with pytest.raises(TargetError, match="cannot generate code for the triple 'vax-dec-vms'"):
        isa.check_cpu("vax780", "vax-dec-vms")
