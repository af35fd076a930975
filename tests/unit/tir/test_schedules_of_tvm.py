"""Ways in which suites written for TVM look into schedules; what is expected was asked of TVM."""
# mypy: disable-error-code="valid-type,misc,arg-type,attr-defined"

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.errors import LowerError
from tilewright.script import tir as T
from tilewright.tir.transform import NarrowDataType


@T.prim_func
def two_steps(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))) -> None:
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


# --- handles ---


def test_a_handle_that_was_removed_is_an_index_error() -> None:
    sch = tir.Schedule(two_steps)
    block = sch.get_block("B")
    sch.remove_rv(block)
    for ask in (sch.get, sch.get_sref, sch.get_loops, sch.remove_rv):
        with pytest.raises(IndexError, match="does not belong to this schedule"):
            ask(block)
    with pytest.raises(IndexError):
        sch.copy().get(tir.Schedule(two_steps).get_block("B"))


def test_a_handle_of_what_is_gone_is_a_value_error() -> None:
    sch = tir.Schedule(two_steps)
    loop, _ = sch.get_loops("B")
    sch.split(loop, [4, 4])
    with pytest.raises(ValueError, match="no longer exists"):
        sch.get(loop)


def test_errors_hold_their_message() -> None:
    sch = tir.Schedule(two_steps)
    with pytest.raises(tir.ScheduleError) as caught:
        sch.compute_inline("C")
    assert caught.value.args == (str(caught.value),)


# --- states ---


def test_marks_of_compute_locations() -> None:
    assert tir.StmtSRef.root_mark() is tir.StmtSRef.root_mark()
    assert tir.StmtSRef.root_mark() is not tir.StmtSRef.inline_mark()
    assert tir.StmtSRef.inline_mark().stmt is None


def test_the_state_of_a_schedule_is_a_state() -> None:
    assert isinstance(tir.Schedule(two_steps).state, tir.ScheduleState)
    assert not isinstance(tir.Schedule(two_steps), tir.ScheduleState)


@pytest.mark.parametrize("inside", [False, True])
def test_a_loop_is_replaced_by_a_block_around_it(inside: bool) -> None:
    state = tir.ScheduleState(two_steps, debug_mask="all")
    loop = state.mod["main"].body.block.body[1]
    sref = state.get_sref(loop)
    made = tir.Block([], [], [], "around", loop)
    around = tir.BlockRealize([], True, made)
    target = tir.For(tir.Var("x", "int32"), 0, 1, tir.ForKind.SERIAL, around) if inside else around
    state.replace(sref, target)
    assert state.mod["main"].body.block.body[1].same_as(target)
    assert sref.stmt is loop
    assert sref.parent is state.get_sref(made)


def test_a_block_is_replaced_with_its_bindings() -> None:
    state = tir.ScheduleState(two_steps, debug_mask="all")
    realize = state.mod["main"].body.block.body[1].body.body
    old, sref = realize.block, state.get_sref(realize.block)
    new = tir.Block(old.iter_vars, old.reads, old.writes, "C2", old.body)
    target = tir.BlockRealize(realize.iter_values, True, new)
    state.replace(sref, target, block_sref_reuse={old: new})
    assert state.mod["main"].body.block.body[1].body.body.same_as(target)
    assert sref.stmt is new


def test_a_root_keeps_its_bindings() -> None:
    state = tir.ScheduleState(two_steps, debug_mask="all")
    root = state.mod["main"].body.block
    new = tir.Block([], [], [], "root", root.body, alloc_buffers=root.alloc_buffers)
    state.replace(state.get_sref(root), tir.BlockRealize([], True, new), {root: new})
    assert state.mod["main"].body.block is new


# --- buffers and passes ---


def test_flattened_buffers() -> None:
    plain = tir.decl_buffer((4, 8), name="A", scope="shared")
    flat = plain.get_flattened_buffer()
    assert [extent.value for extent in flat.shape] == [32]
    assert flat.data is plain.data
    assert flat.get_flattened_buffer() is flat
    grouped = tir.decl_buffer((4, 8, 2), axis_separators=[1]).get_flattened_buffer()
    assert [extent.value for extent in grouped.shape] == [4, 16]
    assert grouped.axis_separators == (1,)
    padded = tir.decl_buffer((4, 8), strides=[16, 1]).get_flattened_buffer()
    assert [extent.value for extent in padded.shape] == [64]
    assert padded.strides == ()
    scalar = tir.decl_buffer(()).get_flattened_buffer()
    assert [extent.value for extent in scalar.shape] == [1]


def test_bits_of_indices() -> None:
    assert NarrowDataType(32) == NarrowDataType()
    with pytest.raises(LowerError) as caught:
        NarrowDataType(16)
    assert str(caught.value) == "NarrowDataType narrows indices to 32 bits, got target_bits=16"
