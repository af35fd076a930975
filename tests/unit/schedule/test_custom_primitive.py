"""The example of a primitive that a user registers works, and so do registrations that collide."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.errors import RegistryError, ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import BlockRV, LoopRV, Primitive, Schedule, Trace, register_primitive
from tilewright.schedule.primitives.annotate import annotate
from tilewright.schedule.trace.instruction import flag, given
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_primitive.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("custom_primitive", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_it_records_replays_prints_and_serialises(example: ModuleType, matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask=1)
    i, j, k = sch.get_loops("C")
    sch.rotate(i, by=5)
    sch.rotate(loop=j, by=-1)
    assert "vi = T.axis.spatial(32, (i_rotated + 5) % 32)" in sch.mod.script()
    assert sch.trace is not None
    assert sch.trace.as_python()[-2:] == [
        "sch.rotate(loop=l1, by=5)",
        "sch.rotate(loop=l2, by=-1)",
    ]
    assert sch.trace.as_json()[0][-1] == ["Rotate", ["l2"], [-1], []]
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul, debug_mask=1)
    text = "rotate: loop 'k' is part of a reduction, which has to start at its first iteration"
    with pytest.raises(ScheduleError, match=text):
        sch.rotate(k, by=1)


def test_the_example_runs(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    printed = capsys.readouterr().out
    assert "sch.rotate(loop=l1, by=3)" in printed
    assert "replayed: True" in printed
    assert "ScheduleError: rotate: loop 'r' is part of a reduction" in printed


def test_names_are_taken_once(example: ModuleType) -> None:
    class Rotate(Primitive[None]):
        method = "rotate_again"

    class Split2(Primitive[None]):
        method = "split"

    text = "the schedule primitive 'Rotate' is registered already"
    with pytest.raises(RegistryError, match=text):
        register_primitive(Rotate)
    text = "the schedule method 'split' belongs to the primitive 'Split' already"
    with pytest.raises(RegistryError, match=re.escape(text)):
        register_primitive(Split2)


# --- a primitive with every kind of argument, all of it in this file ------------------------------


@register_primitive
class MadeUpMark(Primitive[list[BlockRV]]):
    """Notes which of some numbers was drawn, on a block and on loops."""

    method = "mark_up"
    moves_blocks = False
    other_kinds = ("MadeUpMarkOfOldTraces",)
    block: BlockRV = given()
    values: list[int]
    loops: tuple[LoopRV, ...] = given(rest=True)
    is_strong: bool = flag(default=False, optional=True)

    def decide(self, sch: Schedule, decision: Any) -> tuple[list[BlockRV], int]:
        chosen = sch.random.integer(0, len(self.values)) if decision is None else decision
        note = f"{self.values[chosen]}{'!' if self.is_strong else ''}"
        places: list[BlockRV | LoopRV] = [self.block, *self.loops]
        for place in places:
            annotate(sch.state, sch.get_sref(place), "mark", note)
        return [sch.block_rv(sch.get_sref(self.block))], chosen


def marked(matmul: PrimFunc) -> Schedule:
    sch = Schedule(matmul, seed=3, debug_mask="all")
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    (again,) = sch.mark_up(block, [5, 7], (i, j), decision=1)
    sch.mark_up(again, values=[1, 2, 3], loops=(), is_strong=True)
    return sch


def test_it_is_a_method_of_every_schedule(matmul: PrimFunc) -> None:
    sch = marked(matmul)
    i, j, k = (sch.get_sref(loop).loop.annotations for loop in sch.get_loops("C"))
    assert (i, j, k) == ({"mark": "7"}, {"mark": "7"}, {})
    assert sch.get_sref(sch.get_block("C")).block.annotations == {"mark": "7"}
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'loops'"):
        sch.mark_up(sch.get_block("C"), [1])


def test_its_texts_follow_from_its_fields(matmul: PrimFunc) -> None:
    trace = marked(matmul).trace
    assert trace is not None
    drawn = trace.get_decision(trace.insts[-1])
    assert trace.as_python()[-2:] == [
        "b4, = sch.mark_up(block=b0, values=[5, 7], loops=[l1, l2], decision=1)",
        "b5, = sch.mark_up(block=b4, values=[1, 2, 3], loops=[], is_strong=True, "
        f"decision={drawn})",
    ]
    assert trace.as_json()[0][-2:] == [
        ["MadeUpMark", ["b0", "l1", "l2"], [[5, 7]], ["b4"]],
        ["MadeUpMark", ["b4"], [[1, 2, 3], 1], ["b5"]],
    ]


def test_it_replays_from_all_forms(matmul: PrimFunc) -> None:
    sch = marked(matmul)
    verify_trace_roundtrip(sch, matmul, debug_mask="all")
    assert sch.trace is not None
    insts, decisions = sch.trace.as_json()
    insts[-1][0] = "MadeUpMarkOfOldTraces"
    read = Trace.from_json([insts, decisions])
    step = read.insts[-1].step
    assert isinstance(step, MadeUpMark)
    assert (step.values, step.loops, step.is_strong) == ([1, 2, 3], (), True)
    assert read.as_json() == sch.trace.as_json()
    again = Schedule(matmul)
    Trace.apply_json_to_schedule([insts, decisions], again)
    assert_structural_equal(again.mod, sch.mod)


def test_json_that_does_not_fit_its_fields_is_refused(matmul: PrimFunc) -> None:
    for inputs, attrs in ([], [[1]]), (["b0"], []), (["b0"], [[1], 1, 1]):
        found = ["GetBlock", [], ["C", "main"], ["b0"]]
        json = [[found, ["MadeUpMark", inputs, attrs, ["b1"]]], []]
        text = f"MadeUpMark does not take {len(inputs)} inputs and {len(attrs)} attributes"
        with pytest.raises(ScheduleError, match=text):
            Trace.from_json(json)


def test_a_primitive_says_what_it_does(matmul: PrimFunc) -> None:
    class Nothing(Primitive[None]):
        method = "nothing"

    with pytest.raises(NotImplementedError, match="Nothing defines neither `run` nor `decide`"):
        Schedule(matmul).run(Nothing())
