# mypy: ignore-errors
"""Tuning with a rule of one's own, then with the default ones, and what is remembered of it."""

import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import meta_schedule as ms, te, tir
from tvm.meta_schedule.schedule_rule import PyScheduleRule
from tvm.meta_schedule.space_generator import PostOrderApply
from tvm.meta_schedule.testing.space_generation import generate_design_space
from tvm.meta_schedule.testing.te_workload import create_te_workload
from tvm.meta_schedule.utils import derived_object
from tvm.target import Target
from tvm.tir.schedule import BlockRV, Schedule

target = Target("llvm --num-cores=2")


@derived_object
class Tile(PyScheduleRule):
    def _initialize_with_tune_context(self, context: "ms.TuneContext") -> None:
        self.names = []

    def apply(self, sch: Schedule, block: BlockRV):
        self.names.append(sch.get(block).name_hint)
        if sch.get_sref(block).parent is None or sch.get(block).init is None:
            return [sch]
        tiled = sch.copy()
        i, j = tiled.get_loops(block)[:2]
        tiled.split(loop=i, factors=tiled.sample_perfect_tile(i, n=2, max_innermost_factor=16))
        tiled.vectorize(tiled.split(loop=j, factors=[None, 8])[-1])
        return [tiled]

    def clone(self):
        return Tile()


A = te.placeholder((32, 32), name="A")
k = te.reduce_axis((0, 32), "k")
B = te.compute((32, 32), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="B")
func = te.create_prim_func([A, B])

context = ms.TuneContext(
    mod=tvm.IRModule({"main": func}),
    target=target,
    task_name="squares",
    space_generator=PostOrderApply(sch_rules=[Tile()], postprocs=[], mutator_probs={}),
    num_threads=1,
)
(sketch,) = context.space_generator.generate_design_space(context.mod)
assert [inst.kind.name for inst in sketch.trace.insts].count("SamplePerfectTile") == 1

sketches = generate_design_space("llvm", create_te_workload("GMM", 0), target, types=None or object)
assert len(sketches) == 3

with tempfile.TemporaryDirectory() as work_dir:
    database = ms.tune_tir(
        mod=func,
        target=target,
        work_dir=work_dir,
        max_trials_global=4,
        num_trials_per_iter=4,
        space=PostOrderApply(sch_rules=[Tile()], postprocs=[], mutator_probs={}),
        strategy="replay-trace",
        cost_model="random",
        database=ms.database.MemoryDatabase(),
    )
    found = ms.tir_integration.compile_tir(database, func, target)
    assert isinstance(found, tir.Schedule)
    lib = tvm.build(found.mod, target="llvm")
a = np.random.rand(32, 32).astype("float32")
b = tvm.nd.empty((32, 32))
lib(tvm.nd.array(a), b)
tvm.testing.assert_allclose(b.numpy(), a @ a, rtol=1e-4, atol=1e-5)
print("done")
