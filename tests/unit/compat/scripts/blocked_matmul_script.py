# mypy: ignore-errors
"""A product of matrices: tiled, packed, vectorised and run in parallel, step by step."""

import argparse

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.ir.module import IRModule

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=256)
N = parser.parse_args().size

dtype, target, dev = "float32", tvm.target.Target("llvm"), tvm.device("llvm", 0)
x = tvm.nd.array(np.random.rand(N, N).astype(dtype), dev)
y = tvm.nd.array(np.random.rand(N, N).astype(dtype), dev)
expected = np.dot(x.numpy(), y.numpy())

k = te.reduce_axis((0, N), "k")
A = te.placeholder((N, N), name="A")
B = te.placeholder((N, N), name="B")
C = te.compute((N, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
mod = tvm.IRModule({"mmult": te.create_prim_func([A, B, C]).with_attr("global_symbol", "mmult")})
assert isinstance(mod, IRModule)


def check(name, sch):
    z = tvm.nd.array(np.zeros((N, N), dtype=dtype), dev)
    with tvm.transform.PassContext(opt_level=3, config={"tir.Simplify": {}}):
        lib = tvm.build(sch.mod, target=target)
    lib["mmult"](x, y, z)
    tvm.testing.assert_allclose(z.numpy(), expected, rtol=1e-4, atol=1e-4)
    evaluator = lib.time_evaluator("mmult", dev, number=2, repeat=2)
    assert evaluator(x, y, z).mean > 0, name


sch = tvm.tir.Schedule(mod, debug_mask="all")
block = sch.get_block("C", func_name="mmult")
check("plain", sch)

i, j, p = sch.get_loops(block)
i0, i1 = sch.split(i, factors=[None, 16])
j0, j1 = sch.split(j, factors=[None, 16])
p0, p1 = sch.split(p, factors=[None, 4])
sch.reorder(i0, j0, p0, p1, i1, j1)
sch.vectorize(j1)
check("tiled", sch)

packed = sch.cache_read(block, 1, "global")
sch.transform_layout(block, ("read", 1), index_map=lambda r, c: [c // 16, r, c % 16])
sch.vectorize(sch.get_loops(packed)[-1])
sch.parallel(i0)
sch.decompose_reduction(block, p0)
check("packed", sch)

assert "T.parallel" in sch.mod["mmult"].script()
again = tvm.tir.Schedule(mod)
sch.trace.apply_to_schedule(again, remove_postproc=False)
tvm.ir.assert_structural_equal(again.mod, sch.mod)
print("done")
