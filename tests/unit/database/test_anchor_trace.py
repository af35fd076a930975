"""Schedules carried over to programs with the same anchor block (TVM gives the same programs)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.database import MemoryDatabase
from tilewright.database.anchor_trace import schedule_using_anchor_trace
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, as_module
from tilewright.records import TuningRecord, normalize_mod
from tilewright.schedule import Schedule, Trace
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

CPU, GPU = Target("llvm -num-cores=4"), Target("nvidia/nvidia-a100")
SHAPE = (16, 16)


def dense(after: Sequence[str] = (), before: Sequence[str] = ()) -> PrimFunc:
    """A product between elementwise blocks of these names; `exp` is the exponential."""
    a, b = te.placeholder(SHAPE, name="A"), te.placeholder(SHAPE, name="B")
    k = te.reduce_axis((0, 16), name="k")
    x = a
    for name in before:
        x = _elementwise(name, x)
    y = te.compute(SHAPE, lambda i, j: te.sum(x[i, k] * b[j, k], axis=k), name="dense")
    for name in after:
        y = _elementwise(name, y)
    return te.create_prim_func([a, b, y])


def _elementwise(name: str, x: Any) -> Any:
    if name == "exp":
        return te.compute(SHAPE, lambda i, j: te.exp(x[i, j]), name=name)
    return te.compute(SHAPE, lambda i, j: x[i, j] * 2.0 + 1.0, name=name)


def traced(func: PrimFunc, steps: Callable[[Schedule], object]) -> Trace:
    sch = Schedule(func)
    steps(sch)
    assert sch.trace is not None
    return sch.trace


def carried(func: PrimFunc, trace: Trace, target: Target = CPU) -> Schedule:
    sch = Schedule(func, seed=1, debug_mask="all")
    schedule_using_anchor_trace(sch, trace, target)
    verify_trace_roundtrip(sch, func)
    assert_same_result(func, sch.mod)
    return sch


def nests(sch: Schedule) -> list[str]:
    """Each block with the kinds of its loops."""
    lines = []
    for block in sch.get_child_blocks(sch.get_block("root")):
        kinds = [sch.get_sref(loop).loop.kind.name[0] for loop in sch.get_loops(block)]
        lines.append(f"{sch.get_sref(block).name} {''.join(kinds)}")
    return lines


def parallel(sch: Schedule) -> None:
    sch.parallel(sch.get_loops("dense")[0])


def tiled(sch: Schedule) -> None:
    block = sch.get_block("dense")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 4]))
    sch.reorder(i0, j, k, i1)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, j)
    sch.enter_postproc()
    (child,) = sch.get_child_blocks(sch.get_block("root"))[:1]
    sch.parallel(sch.get_loops(child)[0])


@pytest.mark.parametrize("after", [(), ("add",), ("add", "relu"), ("add", "relu", "scale")])
def test_blocks_after_the_anchor_go_into_its_copy(after: Sequence[str]) -> None:
    sch = carried(dense(after), traced(dense(), tiled))
    assert nests(sch) == ["dense PSSS", "dense_global PSS"]


def test_without_a_copy_they_become_one_block() -> None:
    assert nests(carried(dense(["add", "relu"]), traced(dense(), parallel))) == [
        "dense PSS",
        "relu P",
    ]


def test_a_gpu_takes_them_into_the_copy() -> None:
    def bound(sch: Schedule) -> None:
        block = sch.get_block("dense")
        outer, inner = sch.split(sch.fuse(*sch.get_loops(block)[:2]), [None, 32])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        sch.reverse_compute_at(sch.cache_write(block, 0, "local"), inner)

    trace = traced(dense(), bound)
    assert nests(carried(dense(["add", "exp"]), trace, GPU)) == ["dense TTS", "dense_local TT"]
    assert nests(carried(dense(before=["pad"]), trace, GPU))[0] == "pad TT"


def test_what_the_trace_inlines_is_inlined() -> None:
    def inlined(sch: Schedule) -> None:
        sch.compute_inline("pad")
        parallel(sch)

    trace = traced(dense(before=["pad"]), inlined)
    assert nests(carried(dense(before=["pad"]), trace)) == ["dense PSS"]
    assert nests(carried(dense(["add"]), trace)) == ["dense PSS", "add P"]
    assert nests(carried(dense(before=["pad", "scale"]), trace)) == ["scale P", "dense PSS"]


def test_steps_on_blocks_that_are_not_there_are_left_out() -> None:
    def fused(sch: Schedule) -> None:
        parallel(sch)
        sch.reverse_compute_at("add", sch.get_loops("dense")[0])

    trace = traced(dense(["add"]), fused)
    assert nests(carried(dense(), trace)) == ["dense PSS"]
    assert nests(carried(dense(["add"]), trace)) == ["dense PSS", "add PS"]


def test_an_output_that_the_trace_inlines_goes_into_its_producer_or_stays() -> None:
    def inlined(sch: Schedule) -> None:
        sch.compute_inline("relu")
        parallel(sch)

    def inlined_after_copy(sch: Schedule) -> None:
        sch.cache_write("dense", 0, "global")
        inlined(sch)

    before, func = dense(["relu", "add"]), dense(["add", "relu"])
    assert nests(carried(func, traced(before, inlined))) == ["dense PSS", "relu P"]
    copied = carried(func, traced(before, inlined_after_copy))
    assert nests(copied) == ["dense PSS", "dense_global SS"]


def test_programs_that_differ_too_much() -> None:
    func = dense(["relu"], ["pad"])
    sch = Schedule(func)
    with pytest.raises(ScheduleError) as caught:
        schedule_using_anchor_trace(sch, traced(dense(), parallel), CPU)
    assert str(caught.value) == (
        "the trace leaves blocks 'pad', 'relu' without a schedule; it fits programs that differ "
        "from its own by elementwise blocks around the anchor block only"
    )
    assert sch.mod["main"].body is as_module(func)["main"].body
    assert sch.trace is not None
    assert not sch.trace.insts


# --- databases ----------------------------------------------------------------------------------


def stored(func: PrimFunc, equality: str, steps: Callable[[Schedule], object]) -> MemoryDatabase:
    database = MemoryDatabase(equality)
    workload = database.commit_workload(normalize_mod(func))
    record = TuningRecord(traced(func, steps), workload, (1.0,), Target("llvm"))
    database.commit_tuning_record(record)
    return database


def built(func: PrimFunc, database: MemoryDatabase, *arrays: Any) -> Any:
    with database:
        module = tw.build(func, target="llvm")
    result = np.empty(SHAPE, "float32")
    module(*arrays, result)
    return result


def test_a_program_built_with_the_schedule_of_another_stays_itself() -> None:
    a, b = np.random.default_rng(0).random((2, *SHAPE), "float32")
    result = built(dense(["add"]), stored(dense(), "anchor-block", parallel), a, b)
    np.testing.assert_allclose(result, a @ b.T * 2 + 1, rtol=1e-5)


def test_steps_that_may_change_results_are_refused_on_other_programs_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unsafe(sch: Schedule) -> None:
        sch.unsafe_set_dtype("pad", 0, "float16")
        sch.parallel(sch.get_loops("pad")[0])
        parallel(sch)

    a, b = np.random.default_rng(0).random((2, *SHAPE), "float32")
    database = stored(dense(before=["pad"]), "anchor-block", unsafe)
    result = built(dense(["add"], ["pad"]), database, a, b)
    np.testing.assert_allclose(result, (a * 2 + 1) @ b.T * 2 + 1, rtol=1e-5)
    assert "it has the step unsafe_set_dtype, which may change results" in caplog.text


def test_a_program_built_with_a_schedule_for_other_constants_keeps_its_own() -> None:
    def scaled(values: list[float]) -> PrimFunc:
        text = f"""
@T.prim_func
def main(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
    data = T.allocate_const({values}, "float32", [2])
    factors = T.Buffer((2,), "float32", data=data)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * factors[vj % 2]
"""
        func = from_source(text)
        assert isinstance(func, PrimFunc)
        return func

    database = stored(
        scaled([1.0, 2.0]), "ignore-ndarray", lambda sch: sch.parallel(sch.get_loops("C")[0])
    )
    a = np.random.default_rng(0).random(SHAPE, "float32")
    result = built(scaled([3.0, 4.0]), database, a)
    np.testing.assert_allclose(result, a * np.array([3, 4] * 8, "float32"))
