# mypy: disable-error-code="valid-type, no-untyped-def"
"""References survive replacement; scopes know their dependencies; the state checks itself."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import Block, For, PrimFunc, replace
from tilewright.schedule import Schedule, StmtSRef
from tilewright.schedule.conditions.checks import (
    has_affine_binding,
    is_complete_block,
    is_reduction_block,
    loop_iter_type,
)
from tilewright.schedule.state.scope import DepKind, lowest_common_ancestor
from tilewright.script import from_source, tir as T


@T.prim_func
def branches(
    A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32"), D: T.Buffer((4,), "float32")
):
    B = T.alloc_buffer((4, 4), "float32")
    for i in range(4):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, vj]
    for i, k in T.grid(4, 4):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + B[vi, vk]
    for i in range(4):
        with T.block("B_again"):
            vi = T.axis.spatial(4, i)
            B[vi, 0] = T.float32(0)


def sref(sch: Schedule, name: str) -> StmtSRef:
    return sch.get_sref(sch.get_block(name))


def test_replacing_keeps_what_is_shared() -> None:
    sch = Schedule(branches, debug_mask="all")
    i, j = sch.get_loops("B")
    _, j_of_c = sch.get_loops("C")
    blocks = {name: sref(sch, name) for name in ("B", "C", "D")}
    stmts = {name: block.stmt for name, block in blocks.items()}
    sch.unroll(j)
    assert {name: block.stmt for name, block in blocks.items()} == stmts
    assert sch.get_sref(i).loop.body.seq[0] is sch.get_sref(j).stmt  # type: ignore[attr-defined]
    sch.annotate(sch.get_block("B"), "note", 1)
    assert blocks["B"].block.annotations == {"note": 1}
    assert blocks["C"].stmt is stmts["C"]
    assert [sch.get_sref(loop).seq_index for loop in (i, j, j_of_c)] == [0, 0, 1]


def test_the_path_above_is_copied() -> None:
    sch = Schedule(branches)
    before = sch.mod
    i, j = sch.get_loops("B")
    outer = sch.get_sref(i).stmt
    sch.unroll(j)
    assert sch.mod is not before
    assert sch.get_sref(i).stmt is not outer
    assert "T.unroll" not in before.script()


def test_what_disappears_expires() -> None:
    sch = Schedule(branches, debug_mask="all")
    i, j = sch.get_loops("B")
    inner, outer = sch.get_sref(j), sch.get_sref(i)
    block = sref(sch, "B")
    assert isinstance(block.stmt, Block)
    sch.state.replace(inner, replace(inner.loop, loop_var=T.int32()))
    assert inner.stmt is None
    assert inner.name == "<removed>"
    assert block.stmt is not None
    assert block.parent is not None
    assert block.parent.parent is outer
    with pytest.raises(ScheduleError, match="the statement to be replaced no longer exists"):
        sch.state.replace(inner, outer.loop)
    with pytest.raises(ScheduleError, match="expected a loop, found something that no longer"):
        inner.loop


def test_a_broken_tree_is_noticed() -> None:
    sch = Schedule(branches)
    block = sref(sch, "B")
    sch.state.verify_sref_tree()
    block.seq_index = 3
    with pytest.raises(AssertionError, match="wrong parent or position of <sref B>"):
        sch.state.verify_sref_tree()
    block.seq_index = -1
    del sch.state.srefs[block.block]
    with pytest.raises(AssertionError, match="no reference to"):
        sch.state.verify_sref_tree()


def test_dependencies() -> None:
    sch = Schedule(branches)
    a, b, c, again = (sref(sch, name) for name in ("B", "C", "D", "B_again"))
    scope = sch.state.scope_of(a.scope_root)
    assert [block.name for block in scope.blocks] == ["B", "C", "D", "B_again"]
    edges = {
        (d.src.name, d.dst.name, d.kind) for block in scope.blocks for d in scope.to_block(block)
    }
    assert edges == {
        ("B", "C", DepKind.RAW),
        ("B", "D", DepKind.RAW),
        ("B", "B_again", DepKind.WAW),
        ("C", "B_again", DepKind.WAR),
        ("D", "B_again", DepKind.WAR),
    }
    assert scope.buffer_writers[a.block.writes[0].buffer] == [a, again]
    assert [d.dst for d in scope.from_block(a)] == [b, c, again]
    assert sch.state.scope_of(a.scope_root) is scope
    sch.parallel(sch.get_loops("D")[0])
    assert sch.state.scope_of(a.scope_root) is scope
    sch.annotate(sch.get_block("D"), "note", 1)
    assert sch.state.scope_of(a.scope_root) is not scope


def test_ancestors() -> None:
    sch = Schedule(branches)
    b, c, d = (sref(sch, name) for name in ("B", "C", "D"))
    i = sch.get_sref(sch.get_loops("B")[0])
    assert lowest_common_ancestor([b, c]) is i
    assert lowest_common_ancestor([b, d]).name == "root"
    assert lowest_common_ancestor([b]) is b
    assert i.holds(c)
    assert not i.holds(d)
    root = b.scope_root
    with pytest.raises(ScheduleError, match="block 'root' is the root block, it has no scope"):
        root.scope_root
    with pytest.raises(ScheduleError, match="block 'root' is the root block of its function"):
        root.realize


def test_classes_of_blocks(matmul: PrimFunc, chain: PrimFunc) -> None:
    sch = Schedule(matmul)
    block = sref(sch, "C")
    assert is_reduction_block(sch.state, block)
    assert not is_complete_block(sch.state, block)
    i, _, k = (sch.get_sref(loop) for loop in sch.get_loops("C"))
    assert loop_iter_type(sch.state, i).name == "DATA_PAR"
    assert loop_iter_type(sch.state, k).name == "COMM_REDUCE"
    mixed = sch.get_sref(sch.fuse(*sch.get_loops("C")[1:]))
    assert loop_iter_type(sch.state, mixed).name == "OPAQUE"
    other = Schedule(chain)
    assert is_complete_block(other.state, sref(other, "B"))
    assert not is_reduction_block(other.state, sref(other, "B"))
    several = Schedule(branches)
    assert not is_complete_block(several.state, sref(several, "B"))


def affine(binding: str, where: str = "") -> bool:
    source = f"""
@T.prim_func
def main(A: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi = T.axis.spatial(64, {binding})
            {where or "T.reads()"}
            A[vi, 0] = T.float32(1)
"""
    sch = Schedule(from_source(source))
    return has_affine_binding(sch.state, sref(sch, "B"))


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("i * 4 + j", True),
        ("j * 8 + i", True),
        ("i", True),
        ("0", True),
        ("i + j", True),  # every value, some more than once
        ("i * 5 + j", False),
        ("i * 8 + j * 2", False),
        ("i // 2", True),
        ("i * i", False),
        ("i * 4 + j + 3", True),
    ],
)
def test_affine_bindings(binding: str, expected: bool) -> None:
    assert affine(binding) is expected


def test_affine_under_a_predicate() -> None:
    assert affine("i * 4 + j", "T.where(i * 4 + j < 30)")
    assert not affine("i * 4 + j", "T.where(i < j)")


def test_loops_are_not_blocks() -> None:
    sch = Schedule(branches)
    loop = sch.get_sref(sch.get_loops("B")[0])
    assert isinstance(loop.stmt, For)
    assert loop.is_loop
    assert not loop.is_block
    with pytest.raises(ScheduleError, match="expected a block, found loop 'i'"):
        loop.block
