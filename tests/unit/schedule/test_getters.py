# mypy: disable-error-code="valid-type, no-untyped-def"
"""Finding blocks and loops, and what happens to handles."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tilewright.errors import IRError, ScheduleError
from tilewright.ir import IRModule, PrimFunc
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import verify_trace_roundtrip


@T.prim_func
def nested(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8), "float32")
    for io in range(2):
        with T.block("outer"):
            vo = T.axis.spatial(2, io)
            for i, j in T.grid(4, 8):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(8, j)
                    B[vo * 4 + vi, vj] = A[vo * 4 + vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]


def names(sch: Schedule, handles: Sequence[BlockRV | LoopRV]) -> list[str]:
    return [sch.get_sref(handle).name for handle in handles]


def test_blocks_and_loops() -> None:
    sch = Schedule(nested, debug_mask="all")
    root = sch.get_block("root")
    assert names(sch, sch.get_child_blocks(root)) == ["outer", "C"]
    outer = sch.get_block("outer")
    assert names(sch, sch.get_child_blocks(outer)) == ["B"]
    assert names(sch, sch.get_child_blocks(sch.get_loops("C")[0])) == ["C"]
    assert names(sch, sch.get_loops("B")) == ["i", "j"]
    assert names(sch, sch.get_loops(outer)) == ["io"]
    assert sch.get_loops(root) == []
    assert names(sch, sch.get_producers("C")) == ["outer"]
    assert names(sch, sch.get_consumers(outer)) == ["C"]
    assert sch.get_consumers("B") == []
    assert names(sch, sch.get_output_blocks(root)) == ["B", "C"]
    verify_trace_roundtrip(sch, nested)


def test_unknown_names(chain: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    cases = {
        ("Bb", None): "get_block: there is no block called 'Bb' in function 'main'; did you mean "
        "'B'?",
        ("quux", None): "get_block: there is no block called 'quux' in function 'main'; known: B, "
        "C, root",
        ("B", "mian"): "get_block: the module has no function 'mian'; it has 'main'",
    }
    for (name, function), text in cases.items():
        with pytest.raises(ScheduleError, match=re.escape(text)):
            sch.get_block(name, function)
    assert str(sch.trace).endswith("  pass")


def test_a_name_twice() -> None:
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi + 4] = A[vi + 4]

    sch = Schedule(twice)
    with pytest.raises(ScheduleError) as failure:
        sch.get_block("B")
    assert str(failure.value) == (
        "ScheduleError: get_block: 2 blocks are called 'B' in function 'main'; give them different "
        "names in the program\n"
        'def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
        "    ...\n"
        "    for i in range(4):\n"
        '        with T.block("B"):\n'
        "        ^^^^^^^^^^^^^^^^^\n"
        "            vi = T.axis.spatial(4, i)\n"
        "            T.reads(A[vi])\n"
        "            T.writes(B[vi])\n"
        "    ...\n"
        "    for i in range(4):\n"
        '        with T.block("B"):\n'
        "        ^^^^^^^^^^^^^^^^^\n"
        "            vi = T.axis.spatial(4, i)\n"
        "            T.reads(A[vi + 4])\n"
        "            T.writes(B[vi + 4])\n"
        "            ..."
    )


def test_the_root_has_no_neighbours(chain: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    for getter in (sch.get_producers, sch.get_consumers):
        text = "the root block 'root' has no producers or consumers"
        with pytest.raises(ScheduleError, match=text):
            getter("root")


def test_several_functions(chain: PrimFunc, matmul: PrimFunc) -> None:
    sch = Schedule(IRModule({"one": chain, "two": matmul}))
    text = "the module has several functions; say which with func_name= or work_on()"
    with pytest.raises(ScheduleError, match=re.escape(text)):
        sch.get_block("C")
    assert names(sch, sch.get_loops(sch.get_block("C", "two"))) == ["i", "j", "k"]
    sch.work_on("one")
    assert names(sch, sch.get_loops("C")) == ["i", "j"]
    with pytest.raises(IRError, match="three"):
        sch.work_on("three")
    assert sch.func_working_on == "one"


def test_handles_of_others(chain: PrimFunc, matmul: PrimFunc) -> None:
    ours, theirs = Schedule(chain), Schedule(matmul)
    block = theirs.get_block("C")
    loop = theirs.get_loops(block)[0]
    remedy = "use handles that this schedule, or the one it was copied from, gave out"
    with pytest.raises(ScheduleError) as failure:
        ours.get_loops(block)
    assert str(failure.value) == (
        f"ScheduleError: get_loops: the block handle does not belong to this schedule; {remedy}"
    )
    with pytest.raises(ScheduleError, match="parallel: the loop handle does not belong"):
        ours.parallel(loop)
    with pytest.raises(ScheduleError, match="the loop handle does not belong"):
        ours.remove_rv(loop)
    text = "parallel: expected a handle of a block or loop, got 'i'; handles come from get_block"
    with pytest.raises(ScheduleError, match=text):
        ours.parallel("i")  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=re.escape("got [")):
        ours.parallel(ours.get_loops("C"))  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="expected a loop, found block 'C'"):
        ours.parallel(ours.get_block("C"))  # type: ignore[arg-type]
    for getter in (ours.get_loops, ours.get_producers, ours.get_output_blocks):
        with pytest.raises(ScheduleError, match="expected a block, found loop 'i'"):
            getter(ours.get_loops("C")[0])  # type: ignore[arg-type]


def test_handles_of_what_is_gone(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, j, k = sch.get_loops("C")
    sch.split(i, [None, 4])
    with pytest.raises(ScheduleError) as failure:
        sch.parallel(i)
    assert str(failure.value) == (
        "ScheduleError: parallel: the loop of this handle no longer exists: an earlier primitive "
        "removed it; get it again with get_loops"
    )
    sch.parallel(j)  # this one is still there
    sch.remove_rv(k)
    with pytest.raises(ScheduleError, match="does not belong to this schedule"):
        sch.get(k)


def test_handles_survive_a_copy(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=1, debug_mask="all")
    i, j, _ = sch.get_loops("C")
    twin = sch.copy()
    sch.split(i, [None, 4])
    twin.fuse(i, j)
    assert "i_0" in sch.mod.script()
    assert "i_j_fused" in twin.mod.script()
    assert "i_0" not in twin.mod.script()
    verify_trace_roundtrip(sch, matmul)
    verify_trace_roundtrip(twin, matmul)


def test_options(matmul: PrimFunc) -> None:
    text = "error_render_level is one of detail, fast, none, got 'loud'"
    with pytest.raises(ScheduleError, match=text):
        Schedule(matmul, error_render_level="loud")
    with pytest.raises(ScheduleError, match="debug_mask is 'none', 'all' or a number, got 'some'"):
        Schedule(matmul, debug_mask="some")
    with pytest.raises(AttributeError, match="Schedule has no primitive 'splitt'"):
        Schedule(matmul).splitt()
