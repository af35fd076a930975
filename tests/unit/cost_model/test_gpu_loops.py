"""Kernels of plain loops: what obviously takes longer on a GPU is estimated so."""

from __future__ import annotations

from tilewright import ir, te, topi
from tilewright.cost_model.gpu_prior import estimate_on_gpu
from tilewright.schedule import Schedule
from tilewright.target import Target

H200 = Target("nvidia/nvidia-h200")


def seconds(sch: Schedule, target: Target = H200) -> float:
    func = sch.mod["main"]
    assert isinstance(func, ir.PrimFunc)
    return estimate_on_gpu(func, target)


def relu(count: int) -> ir.PrimFunc:
    a = te.placeholder((count,), name="A")
    return te.create_prim_func([a, topi.nn.relu(a)])


def shared_by(threads: int, count: int, width: int = 1) -> Schedule:
    sch = Schedule(relu(count))
    outer, thread, inner = sch.split(sch.get_loops("compute")[0], [None, threads, width])
    sch.bind(outer, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(inner)
    return sch


def row_sum(threads: int) -> Schedule:
    a = te.placeholder((8192, 4096), name="A")
    sch = Schedule(te.create_prim_func([a, topi.sum(a, axis=1)]))
    row, element = sch.get_loops("A_red")
    steps, thread = sch.split(element, [None, threads])
    sch.bind(row, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.unroll(steps)
    return sch


def test_a_large_copy_takes_as_long_as_its_bytes() -> None:
    count = 1 << 26
    found = seconds(shared_by(256, count, 4))
    assert 8 * count / 4.8e12 < found < 1.3 * 8 * count / 4.8e12


def test_narrow_accesses_leave_the_memory_idle() -> None:
    assert seconds(shared_by(256, 1 << 26, 4)) < 0.8 * seconds(shared_by(256, 1 << 26, 1))


def test_blocks_of_few_threads_do_not_fill_the_gpu() -> None:
    assert seconds(shared_by(256, 1 << 26, 4)) < 0.5 * seconds(shared_by(1, 1 << 26, 4))


def test_a_thousand_threads_wait_for_each_other() -> None:
    assert seconds(row_sum(128)) < seconds(row_sum(1024))


def test_one_launch_for_all_that_is_in_a_kernel() -> None:
    a = te.placeholder((1024,), name="A")
    sch = Schedule(te.create_prim_func([a, topi.nn.relu(topi.exp(a))]))
    apart, together = sch.copy(), sch
    for block in ("compute", "compute_1"):
        outer, thread = apart.split(apart.get_loops(block)[0], [None, 128])
        apart.bind(outer, "blockIdx.x")
        apart.bind(thread, "threadIdx.x")
    outer, thread = together.split(together.get_loops("compute_1")[0], [None, 128])
    together.compute_at("compute", thread)
    together.bind(outer, "blockIdx.x")
    together.bind(thread, "threadIdx.x")
    assert seconds(together) < seconds(apart)


def test_the_target_says_how_fast_its_memory_is() -> None:
    sch = shared_by(256, 1 << 26, 4)
    assert seconds(sch) < 0.2 * seconds(sch, Target("nvidia/nvidia-l4"))
