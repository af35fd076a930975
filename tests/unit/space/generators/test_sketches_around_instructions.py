"""Where an instruction fits, sketches around it compete with ours; elsewhere nothing is asked."""

from __future__ import annotations

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import IRModule, PrimFunc
from tilewright.ir.annotation_keys import AUTO_TENSORIZE
from tilewright.space.generators import DefaultSpace
from tilewright.testing.contraction_forms import FORMS
from tilewright.testing.handwritten import matmul
from tilewright.tune import default_schedule
from tilewright.tune.context import TuneContext

VNNI = "llvm -mcpu=icelake-server -num-cores=4"
PLAIN = "llvm -mcpu=haswell -num-cores=4"
BYTES = ("uint8", "int8", "int32")


def kinds(func: PrimFunc, target: str, *, always_competes: bool = True) -> set[str]:
    """What the sketches of a program are: marked for an instruction, made of one, or plain."""
    space = DefaultSpace(always_competes=always_competes)
    context = TuneContext(func, target=target, space_generator=space, rand_state=1)
    found = set()
    for sch in context.generate_design_space():
        assert sch.trace is not None
        steps = {inst.primitive.kind for inst in sch.trace.insts}
        marked = any(AUTO_TENSORIZE in inst.attrs for inst in sch.trace.insts)
        found.add("marked" if marked else "made" if "Tensorize" in steps else "plain")
    return found


@pytest.mark.parametrize("form", ["plain", "ragged", "batched", "convolution"])
def test_three_ways_compete(form: str) -> None:
    assert kinds(FORMS[form](*BYTES), VNNI) == {"marked", "made", "plain"}


@pytest.mark.parametrize("form", ["left_transposed", "im2col", "other_iterator_order"])
def test_where_our_own_tiles_do_not_fit(form: str) -> None:
    assert kinds(FORMS[form](*BYTES), VNNI) == {"marked", "plain"}


@pytest.mark.parametrize(
    ("form", "expected"),
    [("convolution", {"made"}), ("left_transposed", {"marked", "plain"})],
)
def test_without_a_search_ours_are_alone_where_they_fit(form: str, expected: set[str]) -> None:
    func = FORMS[form](*BYTES)
    assert kinds(func, VNNI, always_competes=False) == expected
    trace = default_schedule(func, VNNI).trace
    assert trace is not None
    assert any(inst.primitive.kind == "Tensorize" for inst in trace.insts)
    marked = any(AUTO_TENSORIZE in inst.attrs for inst in trace.insts)
    assert marked == ("marked" in expected)


def test_nothing_is_asked_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    func = matmul(32, 32, 32)
    assert kinds(func, VNNI) == {"plain"}
    space = DefaultSpace()
    context = TuneContext(func, target=VNNI, space_generator=space)

    def refuse(mod: IRModule) -> list[object]:
        raise AssertionError("MetaSchedule's rules are not needed here")

    monkeypatch.setattr(space.general, "generate_design_space", refuse)
    assert context.generate_design_space()


def test_targets_without_the_instruction_are_left_alone() -> None:
    assert "marked" not in kinds(FORMS["plain"](*BYTES), PLAIN)
