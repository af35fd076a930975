# mypy: disable-error-code="valid-type, no-untyped-def"
"""`ApplyCustomRule`: blocks with rules of their own, and where these are found."""

from __future__ import annotations

import logging

import pytest

from tilewright.errors import RegistryError, TuneError
from tilewright.ir import IRModule, as_module
from tilewright.schedule import BlockRV, Schedule
from tilewright.script import tir as T
from tilewright.space.rules import ApplyCustomRule, MultiLevelTiling
from tilewright.space.tvm import apply_custom_rule
from tilewright.space.tvm.apply_custom_rule import (
    add_custom_rule_lookup,
    find_custom_rule,
    register_custom_rule,
)
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask, generate_design_space

LLVM = Target("llvm -num-cores=4")


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_custom_rule, "_rules", dict(apply_custom_rule._rules))
    monkeypatch.setattr(apply_custom_rule, "_lookups", [])


def matmul(rule: str) -> IRModule:
    @T.prim_func
    def main(
        A: T.Buffer((16, 16), "float32"),
        B: T.Buffer((16, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ):
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = Schedule(main)
    sch.annotate(sch.get_block("C"), "schedule_rule", rule)
    return as_module(sch.mod["main"])


def unroll_outermost(sch: Schedule, block: BlockRV) -> list[Schedule]:
    sch.unroll(sch.get_loops(block)[0])
    return [sch]


def sketches(rule: str) -> list[Schedule]:
    rules = [ApplyCustomRule(), MultiLevelTiling("SSRSRS", None, 64)]
    return generate_design_space("llvm", matmul(rule), LLVM, sch_rules=rules)


def test_a_registered_rule_has_the_block_to_itself() -> None:
    register_custom_rule("meta_schedule.cpu.my_matmul")(unroll_outermost)
    (made,) = sketches("my_matmul")
    script = made.mod.script()
    assert "T.unroll(16)" in script
    assert "tiling_structure" not in script


def test_the_keys_of_the_target_decide() -> None:
    register_custom_rule("meta_schedule.gpu.my_matmul")(unroll_outermost)
    (made,) = sketches("my_matmul")
    assert "T.unroll" not in made.mod.script()


def test_nobody_touches_a_block_with_the_rule_none() -> None:
    (made,) = sketches("None")
    assert made.trace is not None
    assert [inst.primitive.kind for inst in made.trace.insts] == ["GetBlock", "GetBlock"]


def test_unknown_rules_are_named_and_the_others_take_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        (made,) = sketches("nowhere")
    assert "tiling_structure" in made.mod.script()
    assert "schedule_rule" not in made.mod.script()
    assert caplog.messages == [
        "block 'C' asks for the schedule rule 'nowhere', but none of these functions is "
        "registered: meta_schedule.cpu.nowhere; the default rules take over"
    ]


def test_names_that_operators_offer_are_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (made,) = sketches("meta_schedule.pool_max")
    assert "schedule_rule" not in made.mod.script()
    assert not caplog.messages


def test_a_rule_is_asked_for_a_target_first() -> None:
    with pytest.raises(TuneError, match="ApplyCustomRule needs a target"):
        ApplyCustomRule()._initialize_with_tune_context(SpaceTask())
    sch = Schedule(matmul("x"))
    with pytest.raises(TuneError, match="must be initialised with a TuneContext"):
        ApplyCustomRule().apply(sch, sch.get_block("C"))


def test_names_are_taken_once() -> None:
    register_custom_rule("meta_schedule.cpu.mine")(unroll_outermost)
    register_custom_rule("meta_schedule.cpu.mine")(unroll_outermost)  # the same again

    def other(sch: Schedule, block: BlockRV) -> list[Schedule]:
        return [sch]

    with pytest.raises(RegistryError) as caught:
        register_custom_rule("meta_schedule.cpu.mine")(other)
    assert str(caught.value) == (
        "a custom schedule rule 'meta_schedule.cpu.mine' is registered already; pass "
        "override=True to replace it"
    )
    register_custom_rule("meta_schedule.cpu.mine", override=True)(other)
    assert find_custom_rule("meta_schedule.cpu.mine") is other


def test_other_places_to_look() -> None:
    add_custom_rule_lookup({"meta_schedule.cpu.elsewhere": unroll_outermost}.get)
    assert find_custom_rule("meta_schedule.cpu.elsewhere") is unroll_outermost
    assert find_custom_rule("meta_schedule.cpu.nowhere") is None
    (made,) = sketches("elsewhere")
    assert "T.unroll(16)" in made.mod.script()
