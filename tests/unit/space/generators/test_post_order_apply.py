# mypy: disable-error-code="valid-type, no-untyped-def"
"""`PostOrderApply`: the order of visits, filters, statistics, and rules that fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.errors import ScheduleError, TuneError
from tilewright.ir import IRModule, as_module
from tilewright.schedule import BlockRV, Schedule
from tilewright.script import tir as T
from tilewright.space.base import ScheduleRule
from tilewright.space.generators import PostOrderApply, RuleApplication, RuleStatistics
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.te_workload import create_te_workload

LLVM = Target("llvm -num-cores=4")


class Visit(ScheduleRule):
    """Calls a function with the name of every block."""

    def __init__(self, visit: Callable[[Schedule, BlockRV, str], Any]) -> None:
        self.visit = visit

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        made: list[Schedule] = self.visit(sch, block, sch.get_sref(block).name)
        return made


def space(
    rules: list[ScheduleRule], module: IRModule | None = None, **options: Any
) -> tuple[PostOrderApply, list[Schedule]]:
    module = as_module(create_te_workload("SFM", 0)) if module is None else module
    generator = PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={}, **options)
    generator._initialize_with_tune_context(SpaceTask(module, LLVM))
    return generator, generator.generate_design_space(module)


def test_order_of_blocks_and_sketches() -> None:
    seen: list[str] = []

    def twice(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        seen.append(name)
        if name != "T_softmax_exp":
            return [sch]
        other = sch.copy()
        sch.annotate(block, "way", "first")
        other.annotate(block, "way", "second")
        return [sch, other]

    _, made = space([Visit(twice)])
    assert seen[:3] == ["root", "T_softmax_norm", "T_softmax_expsum"]
    assert seen[3:] == ["T_softmax_exp", "T_softmax_maxelem", "T_softmax_maxelem"]
    assert ["first" in sch.mod.script() for sch in made] == [False, True]  # the last one first


def test_the_trace_begins_with_all_blocks() -> None:
    _, (made,) = space([])
    assert made.trace is not None
    names = [inst.attrs[0] for inst in made.trace.insts]
    assert names[:2] == ["T_softmax_maxelem", "T_softmax_exp"]
    assert names[-1] == "root"


def test_filters_see_blocks() -> None:
    seen: list[str] = []

    def note(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        seen.append(name)
        return [sch]

    space([Visit(note)], f_block_filter=lambda block: "exp" in block.name_hint)
    assert seen == ["T_softmax_expsum", "T_softmax_exp"]


def test_blocks_that_are_gone_are_passed_over() -> None:
    seen: list[str] = []

    def inline_exp(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        seen.append(name)
        if name == "T_softmax_norm":
            sch.compute_inline(sch.get_block("T_softmax_exp"))
        return [sch]

    space([Visit(inline_exp)])
    assert "T_softmax_exp" not in seen


def test_an_empty_list_drops_a_sketch() -> None:
    def branch(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        if name == "root":
            return [sch, sch.copy()]
        return [sch]

    dropped: list[int] = []

    def drop_one(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        if name == "root" and not dropped:
            dropped.append(1)
            return []
        return [sch]

    _, made = space([Visit(branch), Visit(drop_one)])
    assert len(made) == 1


# --- rules that fail ----------------------------------------------------------------------------


def break_half_way(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
    if name == "T_softmax_exp":
        sch.annotate(block, "half", "done")
        sch.split(sch.get_loops(block)[0], [3, 3])  # 9 is too few
    sch.annotate(block, "seen", 1)
    return [sch]


def test_a_failing_rule_is_skipped_for_that_block(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        generator, (made,) = space([Visit(break_half_way), Visit(break_half_way)])
    script = made.mod.script()
    assert "half" not in script
    assert script.count('"seen": 1') == 4  # the four other blocks
    statistics = generator.statistics["Visit"]
    assert (statistics.asked, statistics.failed) == (10, 2)
    assert len(statistics.errors) == 1
    assert "T_softmax_exp" not in statistics.blocks
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith(
        "schedule rule Visit failed at block 'T_softmax_exp' and is skipped there: "
    )


def test_the_random_engine_is_put_back() -> None:
    def draw_and_fail(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        sch.sample_categorical([1, 2, 3], [0.25, 0.25, 0.5])
        raise ScheduleError("no")

    def draw(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        if name == "root":
            sch.sample_categorical(list(range(100)), [0.01] * 100)
        return [sch]

    _, (plain,) = space([Visit(draw)])
    _, (after_failures,) = space([Visit(draw_and_fail), Visit(draw)])
    assert str(plain.trace) == str(after_failures.trace)


@pytest.mark.parametrize("wrong", [None, "sch", [1]])
def test_wrong_results_count_as_failures(wrong: Any) -> None:
    generator, (made,) = space([Visit(lambda sch, block, name: wrong)])
    assert generator.statistics["Visit"].failed == 5
    assert generator.statistics["Visit"].errors == (
        f"TuneError: schedule rule Visit must return a list of schedules, got {wrong!r}",
    )
    assert made.trace is not None


def test_every_kind_of_exception_is_survived() -> None:
    def fail(sch: Schedule, block: BlockRV, name: str) -> list[Schedule]:
        raise ZeroDivisionError(name)

    generator, made = space([Visit(fail)])
    assert len(made) == 1
    assert generator.statistics["Visit"].errors[0] == "ZeroDivisionError: root"


# --- statistics ---------------------------------------------------------------------------------


def test_statistics_of_default_rules() -> None:
    generator = PostOrderApply(sch_rules="llvm", postprocs=[], mutator_probs={})
    module = as_module(create_te_workload("C2D", 0))
    generator._initialize_with_tune_context(SpaceTask(module, LLVM))
    generator.generate_design_space(module)
    found = generator.statistics
    assert found["MultiLevelTiling"] == RuleStatistics(5, 1, 0, ("conv2d_nhwc",), ())
    assert found["AutoInline"] == RuleStatistics(3, 0, 0, (), ())
    assert found["RandomComputeLocation"].blocks == ("PadInput",)
    assert RuleApplication("MultiLevelTiling", "conv2d_nhwc", 3, True) in generator.applications


# --- bad input ----------------------------------------------------------------------------------


def test_blocks_need_names_of_their_own() -> None:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]

    with pytest.raises(TuneError) as caught:
        space([], as_module(main))
    assert str(caught.value) == (
        "function 'main' has more than one block called 'B'; rules and traces find blocks by name, "
        "so give each its own"
    )


def test_defaults_need_a_target() -> None:
    generator = PostOrderApply()
    with pytest.raises(TuneError) as caught:
        generator._initialize_with_tune_context(SpaceTask())
    assert str(caught.value) == (
        "PostOrderApply: sch_rules is to be chosen by the target, but the task has none; give "
        "TuneContext a target, or the generator its members"
    )
