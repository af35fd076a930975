# mypy: ignore-errors
"""What a module is, three ways to make one, and how to change it."""

import numpy as np
import tvm
from tvm import te, tir
from tvm.script import ir as I, tir as T


@tvm.script.ir_module
class FromScript:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (8,), dtype="float32")
        B = T.match_buffer(b, (8,), dtype="float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0


print(type(FromScript), FromScript.script())

A = te.placeholder((8,), dtype="float32", name="A")
B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
from_te = tvm.IRModule({"main": te.create_prim_func([A, B])})

text = """
# from tvm.script import ir as I
# from tvm.script import tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer[(8,), "float32"], B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        # with T.block("root"):
        for i in range(8):
            with T.block("B"):
                v_i0 = T.axis.spatial(8, i)
                T.reads(A[v_i0])
                T.writes(B[v_i0])
                B[v_i0] = A[v_i0] + T.float32(1)
"""
from_text = tvm.script.from_source(text)
for other in (from_te, from_text):
    tvm.ir.assert_structural_equal(FromScript, other)

sch = tir.Schedule(FromScript)
b = sch.get_block("B")
(i,) = sch.get_loops(b)
outer, inner = sch.split(i, factors=[None, 4])
assert isinstance(sch.get(outer), tir.For) and sch.get(outer).extent == 2
sch.reorder(outer, inner)
sch.bind(outer, "blockIdx.x")
sch.bind(inner, "threadIdx.x")
gpu = sch.mod.script()
assert 'thread="blockIdx.x"' in gpu
print(sch.trace)

f = tvm.build(FromScript, target="llvm")
a = tvm.nd.array(np.arange(8).astype("float32"))
b = tvm.nd.array(np.zeros((8,)).astype("float32"))
f(a, b)
np.testing.assert_array_equal(b.numpy(), np.arange(1, 9))
assert I.ir_module is tvm.script.ir_module
print("done")
