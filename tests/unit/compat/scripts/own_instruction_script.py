# mypy: ignore-errors
"""An instruction of one's own, tensorized, and the ones that come along."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, tir
from tvm.script import tir as T
from tvm.tir.schedule.analysis import get_tensorize_loop_mapping
from tvm.tir.schedule.testing import verify_trace_roundtrip
from tvm.tir.tensor_intrin.arm_cpu import ARM_DOT_4x4_i8_SDOT_INTRIN
from tvm.tir.tensor_intrin.cuda import WMMA_SYNC_16x16x16_f16f16f32_INTRIN, get_wmma_sync_intrin
from tvm.tir.tensor_intrin.hexagon import VRMPY_u8u8i32_INTRIN
from tvm.tir.tensor_intrin.rocm import AMDGPU_SDOT4_INTRIN
from tvm.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN

for name in (
    ARM_DOT_4x4_i8_SDOT_INTRIN,
    WMMA_SYNC_16x16x16_f16f16f32_INTRIN,
    VRMPY_u8u8i32_INTRIN,
    AMDGPU_SDOT4_INTRIN,
    VNNI_DOT_16x4_INTRIN,
):
    assert tir.TensorIntrin.get(name).impl is not None


@T.prim_func
def axpy_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (1,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    C = T.match_buffer(c, (8,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:8], A[0:1], B[0:8])
        T.writes(C[0:8])
        for i in range(8):
            with T.block("update"):
                vi = T.axis.remap("S", [i])
                C[vi] = C[vi] + A[0] * B[vi]


@T.prim_func
def axpy_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (1,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    C = T.match_buffer(c, (8,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:8], A[0:1], B[0:8])
        T.writes(C[0:8])
        C[0:8] = C[0:8] + T.broadcast(A[0], 8) * B[0:8]


tir.TensorIntrin.register("notes.axpy_8", axpy_desc, axpy_impl, override=True)

A = te.placeholder((16, 32), name="A")
B = te.placeholder((32, 64), name="B")
k = te.reduce_axis((0, 32), "k")
C = te.compute((16, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=[k]), name="C")
func = te.create_prim_func([A, B, C])

sch = tir.Schedule(func, debug_mask="all")
block = sch.get_block("C")
info = get_tensorize_loop_mapping(sch, block, axpy_desc)
assert info is not None and list(info.loop_map) == [sch.get_sref(sch.get_loops(block)[1])]
i, j, r = sch.get_loops(block)
jo, ji = sch.split(j, [None, 8])
sch.reorder(i, jo, r, ji)
sch.decompose_reduction(block, r)
sch.tensorize(ji, "notes.axpy_8")
verify_trace_roundtrip(sch, mod=func)

a, b = np.random.rand(16, 32).astype("float32"), np.random.rand(32, 64).astype("float32")
c = tvm.nd.empty((16, 64), "float32")
tvm.build(sch.mod["main"], target="llvm")(tvm.nd.array(a), tvm.nd.array(b), c)
tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)

desc, impl = get_wmma_sync_intrin(16, 16, 16, "float16", "float32", False)
assert desc.buffer_map[desc.params[2]].scope() == "wmma.accumulator"
try:
    sch.tensorize(sch.get_loops("C_init")[0], "notes.axpy_8")
except tvm.tir.ScheduleError as error:
    print(str(error).splitlines()[0])
print("done")
