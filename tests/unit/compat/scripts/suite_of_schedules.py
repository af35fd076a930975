# mypy: ignore-errors
"""A suite for TVM: fixtures and marks of tvm.testing, programs before and after."""

import pytest
import tvm
import tvm.testing
from tvm import te, tir
from tvm.script import tir as T
from tvm.tir.schedule import CachedFlags, DepKind, InstructionKind
from tvm.tir.schedule.testing import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)


@T.prim_func
def two_steps(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16, 16))
    C = T.match_buffer(c, (16, 16))
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def one_step(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16, 16))
    C = T.match_buffer(c, (16, 16))
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2.0 + 1.0


use_block_name = tvm.testing.parameter(by_dict={"block_obj": False, "block_name": True})
outer, inner = tvm.testing.parameters((2, 8), (4, 4))


def test_inline(use_block_name):
    sch = tir.Schedule(two_steps, debug_mask="all")
    sch.compute_inline("B" if use_block_name else sch.get_block("B"))
    assert_structural_equal_ignore_global_symbol(one_step, sch.mod["main"])
    verify_trace_roundtrip(sch=sch, mod=two_steps)


def test_split(outer, inner):
    sch = tir.Schedule(one_step)
    first, second = sch.split(sch.get_loops("C")[0], [outer, None])
    assert (sch.get(first).extent.value, int(sch.get(second).extent)) == (outer, inner)


def test_refusals():
    sch = tir.Schedule(two_steps, debug_mask="all", error_render_level="fast")
    with pytest.raises(tvm.tir.ScheduleError):
        sch.compute_inline(sch.get_block("C"))
    with pytest.raises(tvm.TVMError):
        sch.get_block("D")
    with pytest.raises(TypeError):
        sch.unroll(sch.get_block("B"))
    with pytest.raises(ValueError):
        sch.mod["other"]


def test_state():
    state = tir.ScheduleState(two_steps, debug_mask="all")
    blocks = {}
    tvm.tir.stmt_functor.post_order_visit(
        state.mod["main"].body,
        lambda node: (
            blocks.update({node.name_hint: state.get_sref(node)})
            if isinstance(node, tir.Block)
            else None
        ),
    )
    (dependency,) = state.get_block_scope(blocks["root"]).get_deps_by_src(blocks["B"])
    assert dependency.dst.same_as(blocks["C"]) and dependency.kind == DepKind.RAW
    assert state._get_cached_flags(blocks["C"]) == CachedFlags(True, True, True)


def test_instructions():
    sch = tir.Schedule(two_steps)
    sch.annotate(sch.get_block("B"), "key", 1)
    kinds = [inst.kind for inst in sch.trace.insts]
    assert kinds == [InstructionKind.get("GetBlock"), InstructionKind.get("Annotate")]
    assert str(sch.trace.insts[0]) == '_ = sch.get_block(name="B", func_name="main")'
    assert str(sch.trace).splitlines()[0] == "# from tvm import tir"


def test_target(target, dev):
    assert target == "llvm" and dev.exist


@tvm.testing.parametrize_targets("llvm", "cuda")
def test_targets(target, dev):
    with tvm.target.Target(target):
        assert tvm.target.Target.current().kind.name == "llvm"


@tvm.testing.requires_cuda
def test_on_a_gpu():
    raise AssertionError("there is none")


@tvm.testing.requires_llvm
def test_equal_expressions():
    i = te.var("i")
    tvm.testing.assert_prim_expr_equal((i + 1) * 2, i * 2 + 2)
    with pytest.raises(ValueError):
        tvm.testing.assert_prim_expr_equal(i, i + 1)


class TestSimplify(tvm.testing.CompareBeforeAfter):
    transform = tvm.tir.transform.Simplify()

    def before(A: T.Buffer((16,), "int32")):
        for i in T.serial(16):
            A[i + 0] = i * 1

    def expected(A: T.Buffer((16,), "int32")):
        for i in T.serial(16):
            A[i] = i


class TestFixture(tvm.testing.CompareBeforeAfter):
    @pytest.fixture
    def transform(self):
        def inline(mod):
            sch = tir.Schedule(mod)
            sch.compute_inline(sch.get_block("B"))
            return sch.mod

        return inline

    before = two_steps
    expected = one_step


class TestRefusal(TestFixture):
    before = one_step
    expected = tvm.tir.ScheduleError


if __name__ == "__main__":
    tvm.testing.main()
