"""Traces that are still text."""

from __future__ import annotations

import msgspec
import pytest

from tilewright.database.stored_record import StoredTrace, trace_text
from tilewright.errors import ScheduleError
from tilewright.schedule import Schedule, Trace
from tilewright.testing.conformance.database import matmul, tiled

MOD = matmul(16, 16, 16)
TEXT = msgspec.json.encode(tiled(MOD).as_json())


def test_a_stored_trace_is_a_trace() -> None:
    stored, plain = StoredTrace(TEXT), tiled(MOD)
    assert isinstance(stored, Trace)
    assert str(stored) == str(plain)
    assert stored.as_json(remove_postproc=True) == plain.as_json(remove_postproc=True)
    assert stored.simplified(True).as_python() == plain.simplified(True).as_python()
    assert [stored.get_decision(inst) for inst in stored.insts] == [
        plain.get_decision(inst) for inst in plain.insts
    ]
    sch = Schedule(MOD)
    stored.copy().apply_to_schedule(sch, remove_postproc=False)
    assert "T.parallel(16)" in sch.mod.script()


def test_looking_at_its_beginning_does_not_read_it() -> None:
    for text, expected in (
        (TEXT, True),
        (b"[[],[]]", False),
        (b'[[["EnterPostproc",[],[],[]]],[]]', False),
        (b'[[["Levitate",[],[],[]]],[]]', True),
        (b"{", False),
    ):
        stored = StoredTrace(text)
        assert stored.has_steps() is expected
        assert "insts" not in stored.__dict__
    read = StoredTrace(TEXT)
    assert len(read.insts) == 6
    assert read.has_steps()


def test_the_text_is_the_same_for_the_same_trace() -> None:
    spaced = msgspec.json.format(TEXT, indent=2)
    newer = TEXT.replace(b'"GetBlock"', b'"GetSBlock"')
    for trace in (tiled(MOD), StoredTrace(TEXT, is_canonical=True), StoredTrace(spaced)):
        assert trace_text(trace) == TEXT
    assert trace_text(StoredTrace(newer)) == TEXT
    changed = StoredTrace(TEXT, is_canonical=True)
    changed.pop()
    assert trace_text(changed) != TEXT


def test_damaged_traces() -> None:
    with pytest.raises(ScheduleError, match="the stored trace is damaged: "):
        len(StoredTrace(b"[[").insts)
    with pytest.raises(AttributeError, match="colour"):
        _ = StoredTrace(TEXT).colour
