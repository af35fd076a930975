"""The example of a primitive that a user registers works, and so do registrations that collide."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.errors import RegistryError, ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Primitive, Schedule, register_primitive
from tilewright.schedule.trace.instruction import keywords, positional
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_primitive.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("custom_primitive", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
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


def run_nothing(*_: Any) -> tuple[None, None]:
    return None, None


def test_names_are_taken_once(example: ModuleType) -> None:
    text = "the schedule primitive 'Rotate' is registered already"
    with pytest.raises(RegistryError, match=text):
        register_primitive(Primitive("Rotate", "rotate_again", run_nothing, keywords()))
    text = "the schedule method 'split' belongs to the primitive 'Split' already"
    with pytest.raises(RegistryError, match=re.escape(text)):
        register_primitive(Primitive("Split2", "split", run_nothing, keywords()))


def test_without_a_call_arguments_are_positional(matmul: PrimFunc) -> None:
    seen: list[Any] = []

    def run(sch: Schedule, inputs: Any, attrs: Any, decision: Any) -> tuple[None, None]:
        seen.append((len(inputs), tuple(attrs)))
        return None, None

    register_primitive(Primitive("TestNothing", "test_nothing", run, positional))
    sch = Schedule(matmul)
    i, j, _ = sch.get_loops("C")
    sch.test_nothing(i, j, attrs=[1, "x"])
    sch.test_nothing(i)
    assert sch.trace is not None
    assert sch.trace.as_python()[-2:] == [
        'sch.test_nothing(l1, l2, attrs=[1, "x"])',
        "sch.test_nothing(l1)",
    ]
    verify_trace_roundtrip(sch, matmul)
    assert seen == [(2, (1, "x")), (1, ())] * 3
