"""Default lists: which kind a target is of, and which members belong to it."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.errors import TuneError
from tilewright.ir.tensor_intrin import TensorIntrin, _registry
from tilewright.space.defaults import (
    MUTATORS,
    POSTPROCS,
    SCHEDULE_RULES,
    WMMA_GROUPS,
    create_mutators,
    create_postprocs,
    create_schedule_rules,
    kind_of_default_space,
    kind_of_target,
)
from tilewright.target import Target


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("llvm -mcpu=cascadelake", "vnni"),
        ("llvm -mcpu=icelake-server", "vnni"),
        ("llvm -mcpu=skylake-avx512", "avx512"),
        ("aws/cpu/c5.9xlarge", "avx512"),
        ("llvm -mcpu=haswell", "llvm"),
        ("llvm -mcpu=alderlake", "llvm"),  # its dot products are 256 bits wide
        ("llvm -mcpu=knl", "llvm"),  # no 512-bit arithmetic on bytes
        ("raspberry-pi/4b-aarch64", "asimd"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+dotprod", "dotprod"),
        ("c", "c"),
        ("cuda -arch=sm_70", "cuda"),
        ("nvidia/geforce-rtx-2080", "cuda-tensorcore"),
        ("nvidia/nvidia-h100", "cuda-tensorcore"),
    ],
)
def test_kind_of_target(target: str, kind: str) -> None:
    assert kind_of_target(Target(target)) == kind


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("nvidia/geforce-rtx-2080", "cuda-tensorcore"),
        ("nvidia/nvidia-a100", "cuda-mma"),
        ("nvidia/nvidia-h200", "cuda-mma"),
        ("llvm -mcpu=haswell", "llvm"),
    ],
)
def test_kind_of_a_space_that_need_not_be_tvms(target: str, kind: str) -> None:
    assert kind_of_default_space(Target(target)) == kind


CPU_NAMES = [
    "ApplyCustomRule",
    "InlineConstantScalars",
    "AutoInline",
    "AddRFactor",
    "MultiLevelTiling",
    "ParallelizeVectorizeUnroll",
    "RandomComputeLocation",
]
GPU_NAMES = [
    "ApplyCustomRule",
    "MultiLevelTiling",
    "InlineConstantScalars",
    "AutoInline",
    "CrossThreadReduction",
    "ParallelizeVectorizeUnroll",
    "AutoBind",
]


def names(kind: str) -> list[str]:
    return [spec.name for spec in SCHEDULE_RULES[kind]]


def test_names_of_rules() -> None:
    with_intrin = [*CPU_NAMES[:4], "MultiLevelTilingWithIntrin", *CPU_NAMES[4:]]
    assert names("llvm") == CPU_NAMES
    assert names("vnni") == names("avx512") == names("asimd") == with_intrin
    assert names("dotprod").count("MultiLevelTilingWithIntrin") == 3
    assert names("c") == [*CPU_NAMES[:3], "MultiLevelTiling"]
    assert names("cuda") == GPU_NAMES
    expected = ["ApplyCustomRule", "MultiLevelTilingTensorCore", *GPU_NAMES[1:]]
    assert names("cuda-tensorcore") == names("cuda-mma") == expected
    assert names("hexagon")[3] == "MultiLevelTilingWideVector"


def test_the_three_tables_have_the_same_kinds() -> None:
    assert set(SCHEDULE_RULES) == set(POSTPROCS) == set(MUTATORS)
    for specs in MUTATORS.values():
        assert sum(probability for _, probability in specs) == pytest.approx(1.0, abs=0.021)


@pytest.mark.parametrize(
    "kind", ["llvm", "vnni", "avx512", "asimd", "dotprod", "c", "cuda", "hexagon"]
)
def test_rules_are_made(kind: str) -> None:
    assert [type(rule).__name__ for rule in create_schedule_rules(kind)] == names(kind)


@pytest.mark.parametrize("kind", POSTPROCS)
def test_postprocs_are_made(kind: str) -> None:
    made = [type(postproc).__name__ for postproc in create_postprocs(kind)]
    assert made == [spec.name for spec in POSTPROCS[kind]]


@pytest.mark.parametrize("kind", ["llvm", "vnni", "avx512", "dotprod", "asimd", "c", "hexagon"])
def test_mutators_are_made(kind: str) -> None:
    made = {type(mutator).__name__: chance for mutator, chance in create_mutators(kind).items()}
    assert made == {spec.name: chance for spec, chance in MUTATORS[kind]}


def test_rules_for_missing_instructions_are_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(_registry, "dot_4x4_i8i8s32_neon")
    with caplog.at_level(logging.WARNING):
        made = create_schedule_rules("asimd")
    assert [type(rule).__name__ for rule in made] == CPU_NAMES
    assert "the tensor intrinsic 'dot_4x4_i8i8s32_neon' is not registered" in caplog.text


def test_unknown_kinds() -> None:
    with pytest.raises(TuneError) as caught:
        create_schedule_rules("cudaa")
    assert str(caught.value) == "there are no default members for 'cudaa'; did you mean 'cuda'?"


def test_tensor_core_instructions_exist() -> None:
    assert len(WMMA_GROUPS) == 6
    for group in WMMA_GROUPS:
        for intrin in group.values():
            assert TensorIntrin.get(intrin) is not None


def test_members_come_with_their_lists() -> None:
    """Whoever imports the lists has the members that they name, and custom rules."""
    script = (
        "import tilewright.intrin\n"
        "from tilewright.space.defaults import *\n"
        "from tilewright.space.tvm.apply_custom_rule import find_custom_rule\n"
        "for kind in SCHEDULE_RULES:\n"
        "    create_schedule_rules(kind), create_postprocs(kind), create_mutators(kind)\n"
        "assert find_custom_rule('meta_schedule.cpu.conv2d_nhwc_winograd_inverse')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
