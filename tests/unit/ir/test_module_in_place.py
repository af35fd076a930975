"""A module that is changed in place, and those who hold it."""
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.errors import IRError, ScheduleError
from tilewright.ir import GlobalVar, IRModule, PrimFunc, structural_equal, structural_hash
from tilewright.meta_schedule.database import MemoryDatabase, Workload
from tilewright.script import tir as T


@T.prim_func
def plus_one(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1.0


@T.prim_func
def plus_two(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 2.0


@pytest.fixture
def mod() -> IRModule:
    return IRModule({"main": plus_one})


def test_a_function_is_added_and_replaced(mod: IRModule) -> None:
    before, old = structural_hash(mod), mod.clone()
    mod["main"] = mod["main"].with_attr("note", 1)
    mod[GlobalVar("copy")] = plus_two
    assert list(mod) == ["main", "copy"]
    assert mod["main"].attrs["note"] == 1
    assert mod["copy"] is plus_two
    assert structural_hash(mod) != before
    assert not structural_equal(mod, old)
    assert list(old) == ["main"]
    assert "note" not in old["main"].attrs


def test_update(mod: IRModule) -> None:
    assert mod.update(IRModule({"a": plus_two, "main": plus_two})) is None  # type: ignore[func-returns-value] # as in TVM
    mod.update({GlobalVar("b"): plus_one})
    mod.update_func(mod.get_global_var("a"), plus_one)
    mod.update_func(GlobalVar("c"), plus_two)
    assert dict(mod.functions) == {"main": plus_two, "a": plus_one, "b": plus_one, "c": plus_two}


def test_a_function_is_removed(mod: IRModule) -> None:
    mod["copy"] = plus_two
    del mod["main"]
    assert list(mod) == ["copy"]
    with pytest.raises(IRError) as caught:
        del mod["main"]
    assert str(caught.value) == "the module has no function 'main'; it has 'copy'"


def test_only_functions(mod: IRModule) -> None:
    with pytest.raises(IRError) as caught:
        mod["main"] = 3  # type: ignore[assignment] # the mistake
    assert str(caught.value) == "a module holds PrimFuncs, got int for 'main'"
    assert mod["main"] is plus_one


def test_a_schedule_keeps_what_it_was_made_of(mod: IRModule) -> None:
    sch = tw.tir.Schedule(mod)
    mod["main"] = plus_two
    sch.split(sch.get_loops(sch.get_block("B"))[0], [4, 4])
    assert "A[vi] + T.float32(1)" in str(sch.mod)
    assert "A[vi] + T.float32(2)" in str(mod)


def test_attributes_set_in_the_module_of_a_schedule_stay(mod: IRModule) -> None:
    sch = tw.tir.Schedule(mod)
    twin = sch.copy()
    sch.mod["main"] = sch.mod["main"].with_attr("note", 1)
    sch.parallel(sch.get_loops(sch.get_block("B"))[0])
    assert sch.mod["main"].attrs["note"] == 1
    assert "note" not in twin.mod["main"].attrs


@pytest.mark.parametrize("func", [plus_two, plus_two.with_attr("note", 1)])
def test_a_body_set_in_the_module_of_a_schedule_is_noticed(mod: IRModule, func: PrimFunc) -> None:
    sch = tw.tir.Schedule(mod)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.mod["main"] = func
    with pytest.raises(ScheduleError) as caught:
        sch.parallel(loop)
    assert str(caught.value) == (
        "the body of function 'main' was changed outside of the schedule; make a new Schedule of "
        "the changed module"
    )


def test_workloads_keep_what_they_were_made_of(mod: IRModule) -> None:
    database = MemoryDatabase()
    old, own = database.commit_workload(mod), Workload(mod)
    mod["main"] = plus_two
    new = database.commit_workload(mod)
    assert new is not old
    assert old.mod["main"] is own.mod["main"] is plus_one
    assert old.shash == structural_hash(old.mod)
    mod["main"] = plus_one
    assert database.commit_workload(mod) is old
