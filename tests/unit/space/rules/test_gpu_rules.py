# mypy: disable-error-code="valid-type, no-untyped-def"
"""AutoBind, CrossThreadReduction and tiling for tensor cores, beyond the golden sketches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.errors import RegistryError, ScheduleError, TargetError, TuneError
from tilewright.ir import PrimFunc
from tilewright.nest.kernels import tag_of
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space import rules
from tilewright.space.base import ScheduleRule
from tilewright.target import Target
from tilewright.testing.conformance import schedule_rule
from tilewright.testing.known_gpu_sketches import SINGLE, tensor_core_rule
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import create_te_workload

TARGET = Target("nvidia/geforce-rtx-2080")

MAKERS: dict[str, Callable[[], ScheduleRule]] = {
    "AutoBind": rules.AutoBind,
    "CrossThreadReduction": lambda: rules.CrossThreadReduction([4, 8]),
    "MultiLevelTilingTensorCore": lambda: rules.MultiLevelTilingTensorCore(**tensor_core()),
}


def tensor_core(**changes: Any) -> dict[str, Any]:
    return {**tensor_core_rule()[1], **changes}


def initialized(rule: ScheduleRule, target: Target | None = TARGET) -> ScheduleRule:
    rule._initialize_with_tune_context(SpaceTask(target=target))
    return rule


@pytest.mark.parametrize("check", schedule_rule.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_conformance(name: str, check: Callable[..., None]) -> None:
    check(MAKERS[name], TARGET)


# --- AutoBind -----------------------------------------------------------------------------------


def copy_of(size: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((size,), "float32"), B: T.Buffer((size,), "float32")):
        for i in range(size):
            with T.block("B"):
                vi = T.axis.spatial(size, i)
                B[vi] = A[vi]

    return main


@pytest.mark.parametrize(
    ("size", "candidates"),
    [
        (7, None),  # as many as there are
        (40, None),  # only one number fits
        (64, [32, 64]),
        (300, [32, 64, 128, 256]),
        (256 * 1024, [32, 64, 128, 256, 512, 1024]),
    ],
)
def test_numbers_of_threads(size: int, candidates: list[int] | None) -> None:
    sch = Schedule(copy_of(size), seed=1)
    (made,) = initialized(rules.AutoBind()).apply(sch, sch.get_block("B"))
    assert made.trace is not None
    drawn = [i for i in made.trace.insts if i.primitive.kind == "SampleCategorical"]
    assert [inst.attrs[0] for inst in drawn] == ([] if candidates is None else [candidates])
    split = next(i for i in made.trace.insts if i.primitive.kind == "Split")
    expected = min(size, 32) if candidates is None else made.get(drawn[0].outputs[0])
    assert made.int_of(split.inputs[2]) == expected


def test_more_work_than_threads_is_strided_over() -> None:
    sch = Schedule(copy_of(256 * 1024 + 1))
    (made,) = initialized(rules.AutoBind()).apply(sch, sch.get_block("B"))
    tags = [tag_of(made.get_sref(loop).loop) for loop in made.get_loops("B")]
    assert tags == ["blockIdx.x", "threadIdx.x", ""]


@T.prim_func
def half_bound(A: T.Buffer((64, 4), "float32"), B: T.Buffer((64, 4), "float32")):
    for i in T.thread_binding(64, thread="blockIdx.x"):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]


def test_blocks_without_threads_under_blocks_of_threads() -> None:
    sch = Schedule(half_bound)
    with pytest.raises(ScheduleError) as caught:
        initialized(rules.AutoBind()).apply(sch, sch.get_block("B"))
    assert str(caught.value) == (
        "block 'B' is under a loop bound to blockIdx but under none bound to threadIdx; bind a "
        "loop inside it to threadIdx as well"
    )


def test_targets_must_say_how_many_threads_there_are() -> None:
    with pytest.raises(TargetError) as caught:
        initialized(rules.AutoBind(), Target("llvm -num-cores=4"))
    assert str(caught.value) == (
        "AutoBind needs the target attribute 'max_threads_per_block', but target 'llvm -keys=cpu "
        "-num-cores=4' has none; use a tag such as 'nvidia/nvidia-a100', or add "
        "-max_threads_per_block=<number>"
    )
    with pytest.raises(TargetError, match="but there is no target; use a tag"):
        initialized(rules.AutoBind(), None)


# --- CrossThreadReduction -----------------------------------------------------------------------


def test_extents_must_be_positive() -> None:
    for extents in ([], [4, 0]):
        with pytest.raises(TuneError) as caught:
            rules.CrossThreadReduction(extents)
        assert str(caught.value) == (
            f"CrossThreadReduction: thread_extents are one or more positive numbers, got {extents}"
        )


def test_off_where_the_target_says_too_little(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        rule = initialized(rules.CrossThreadReduction([32]), Target("llvm"))
    assert "CrossThreadReduction is off" in caplog.text
    sch = Schedule(create_te_workload("SFM", 0))
    assert rule.apply(sch, sch.get_block("T_softmax_maxelem")) == [sch]


def test_reductions_move_to_their_consumer() -> None:
    sch = Schedule(create_te_workload("SFM", 0), seed=3)
    rule = initialized(rules.CrossThreadReduction([32]))
    made, plain = rule.apply(sch, sch.get_block("T_softmax_expsum"))
    assert plain is sch
    text = made.mod.script()
    assert 'T_softmax_expsum_shared = T.alloc_buffer((256,), scope="shared")' in text
    assert text.count('thread="threadIdx.x"') == 2


@T.prim_func
def row_sums(A: T.Buffer((64, 64), "float32"), D: T.Buffer((64, 64), "float32")):
    C = T.alloc_buffer((64,), "float32")
    for i, k in T.grid(64, 64):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
    for i in range(64):
        for j in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj] - C[vi]


def test_threads_of_the_consumer_are_taken_over() -> None:
    """Also where no step of the trace bound them: then their number is that of the program."""
    sch = Schedule(row_sums, seed=3)
    made, _ = initialized(rules.CrossThreadReduction([16])).apply(sch, sch.get_block("C"))
    inner = made.get_sref(made.get_loops("C")[-1])
    assert tag_of(inner.loop) == "threadIdx.x"
    assert str(inner.loop.extent) == "64"


# --- tensor cores -------------------------------------------------------------------------------

_NAME = "MultiLevelTilingTensorCore"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"intrin_groups": [{"init": "wmma_fill_16x16x16_f32", "other": "x"}]},
            f"{_NAME}: a group of instructions has the keys init, load_a, load_b, compute, store; "
            "missing: ['load_a', 'load_b', 'compute', 'store'], unknown: ['other']",
        ),
        (
            {"tile_binds": ["blockIdx.x", "threadIdx.x"]},
            f"{_NAME}: tile_binds has 'threadIdx.x', but these are the threads of a warp, which "
            "run an instruction together; bind 'threadIdx.y'",
        ),
        (
            {"tile_binds": ["blockIdx.x"]},
            f"{_NAME}: tile_binds must have 'threadIdx.y', the warps of a block",
        ),
        (
            {"structure": "SSSSRSSS"},
            f"{_NAME}: the structure 'SSSSRSSS' needs two R: fragments are loaded inside the "
            "loops that fill shared memory",
        ),
        (
            {"reuse_write": None},
            f"{_NAME}: reuse_write must be 'must' at one level in 'shared' or 'shared.dyn', got "
            "{'req': 'no', 'levels': [], 'scope': ''}",
        ),
        (
            {"reuse_read": {"req": "must", "levels": [4], "scope": "local"}},
            f"{_NAME}: reuse_read must be 'must' in 'shared' or 'shared.dyn', got "
            "{'req': 'must', 'levels': [4], 'scope': 'local'}",
        ),
    ],
)
def test_options_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TuneError) as caught:
        rules.MultiLevelTilingTensorCore(**tensor_core(**changes))
    assert str(caught.value) == message


def test_instructions_must_be_known() -> None:
    (group,) = tensor_core()["intrin_groups"]
    with pytest.raises(RegistryError, match="no tensor intrinsic is called 'wmma_nothing'"):
        rules.MultiLevelTilingTensorCore(
            **tensor_core(intrin_groups=[{**group, "store": "wmma_nothing"}])
        )


def test_each_group_that_fits_gives_a_sketch() -> None:
    (_, options) = tensor_core_rule(trans_b=(False, True))
    _, others = tensor_core_rule("int8", "int32")
    groups = [*options["intrin_groups"], *others["intrin_groups"]]
    sch = Schedule(SINGLE["tensor_cores"].make(), seed=5)
    rule = initialized(rules.MultiLevelTilingTensorCore(**tensor_core(intrin_groups=groups)))
    made = rule.apply(sch, sch.get_block("C"))
    used = ["f16f16f32_trans" in str(result.trace) for result in made]
    assert used == [True, False]


def test_other_blocks_are_left_alone() -> None:
    sch = Schedule(create_te_workload("GMM", 0))
    rule = initialized(rules.MultiLevelTilingTensorCore(**tensor_core()))
    assert rule.apply(sch, sch.get_block("Z")) == [sch]  # single precision
