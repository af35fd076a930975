"""Tutorial 5: a matrix product for a GPU, from one thread a result to tensor cores.

Run it: python docs/tutorials/05_gpu_matmul.py

No GPU is needed: kernels are lowered, printed, compiled where the extra `cuda` is installed
(pip install 'tilewright[cuda]'), and run by an emulator. With a GPU they are timed as well.
"""

import re
from importlib.util import find_spec

import numpy as np

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.codegen.cuda import generate_source
from tilewright.script import tir as T
from tilewright.testing import oracle, simt

TARGET = tw.Target("nvidia/nvidia-h200")
COMPILES = find_spec("cuda") is not None and find_spec("cuda.bindings") is not None
RUNS = tw.cuda(0).exist
TAGS = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
N = 128


@T.prim_func
def matmul(A: T.Buffer((N, N)), B: T.Buffer((N, N)), C: T.Buffer((N, N))):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(N, N, N):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


matmul.show()  # as it is; what schedules make of it is printed below
rng = np.random.default_rng(0)
a, b = rng.random((2, N, N), "float32")


def kernel_text(mod):
    """The CUDA C++ of a kernel alone, without the functions it calls."""
    text = generate_source(tw.lower(mod, TARGET), TARGET)
    return text[text.index('extern "C"') :]


def show(title, mod, inputs, expected):
    """Print a program and its kernel; compile it and run it where that is possible."""
    text = kernel_text(mod)
    print(f"\n=== {title}\n{mod.script()}\n{text}")
    if COMPILES:
        print("compiled:", tw.build(mod, TARGET).resources)
    if RUNS:
        run_on_gpu(tw.build(mod, "cuda"), inputs, expected)
    return text


def run_on_gpu(module, inputs, expected):
    arrays = [tw.nd.array(x, tw.cuda(0)) for x in (*inputs, np.zeros_like(expected))]
    module(*arrays)
    np.testing.assert_allclose(arrays[-1].numpy(), expected, rtol=1e-3)
    print("on the GPU:", module[module.entry_name].time_evaluator(number=100)(*arrays))


def emulate(mod):
    """Run it on NumPy arrays; threads that race, or miss a barrier, are an error."""
    c = np.full((N, N), np.nan, "float32")
    simt.run(tw.lower(mod, TARGET), [a, b, c])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


# 1. One thread a result. A loop that is bound does not run as a loop any more: every block of
# threads, or every thread, does one of its steps. Blocks run in any order, and cannot wait for
# each other; threads of a block can. Loops that are not bound stay loops of each thread.
sch = tw.tir.Schedule(matmul)
i, j, k = sch.get_loops("C")
by, ty = sch.split(i, [None, 16])
bx, tx = sch.split(j, [None, 16])
sch.reorder(by, bx, ty, tx, k)
for loop, tag in zip((by, bx, ty, tx), TAGS, strict=True):
    sch.bind(loop, tag)
text = show("one thread a result", sch.mod, (a, b), a @ b)
emulate(sch.mod)
assert "C[cse_3] = C[cse_3] + A[cse_1 + k] * B[k * 128 + cse_2 + threadIdx_x];" in text

# 2. Shared memory. Above, every step of a sum goes to global memory, four times. A block of threads
# computes a tile of C, so its threads read the same rows of A and columns of B. Now they fetch a
# slice of both together, each a few elements ("cooperative fetching"), wait for each other, and
# compute from the copy. `cache_write` keeps the sum in a register.


def fetch_together(sch, block, operand, at, threads, vector):
    """Copy the slice of an operand that the steps inside `at` read, by all threads."""
    copy = sch.cache_read(block, operand, "shared")
    sch.compute_at(copy, at)
    fused = sch.fuse(*sch.get_loops(copy)[-2:])
    _, ty, tx, lanes = sch.split(fused, [None, threads, threads, vector])
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")
    sch.vectorize(lanes)


def tiled(rows, vector):
    """Blocks of 16 x 16 threads, each with `rows` x `rows` results."""
    sch = tw.tir.Schedule(matmul)
    block = sch.get_block("C")
    output = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    by, ty, i1 = sch.split(i, [None, 16, rows])
    bx, tx, j1 = sch.split(j, [None, 16, rows])
    step, k1 = sch.split(k, [None, 16])
    sch.reorder(by, bx, ty, tx, step, k1, i1, j1)
    for loop, tag in zip((by, bx, ty, tx), TAGS, strict=True):
        sch.bind(loop, tag)
    sch.reverse_compute_at(output, tx)
    for operand in (0, 1):
        fetch_together(sch, block, operand, step, 16, vector)
    sch.decompose_reduction(block, step)
    return sch


mod = tiled(1, 1).mod
text = show("shared memory", mod, (a, b), a @ b)
emulate(mod)
# Nobody wrote barriers: a pass puts one where threads meet in shared memory, here two in a step.
assert text.count("__syncthreads()") == 2

# 3. Register tiles. With 4 x 4 results a thread, 8 numbers from shared memory are enough for 16
# products, where it took 2 for each. Copies move 16 bytes at a time.
mod = tiled(4, 4).mod
text = show("register tiles", mod, (a, b), a @ b)
emulate(mod)
assert "float C_local[16]" in text
assert "*(float4*)" in text

# Without the barriers the emulator notices.
with tw.PassContext(disabled_pass=["ThreadSync"]):
    unsafe = tw.lower(mod, TARGET)
try:
    simt.run(unsafe, [a, b, np.empty((N, N), "float32")])
except simt.RaceError as error:
    print("without barriers:", error)
else:
    raise AssertionError("the race was not noticed")


# 4. Tensor cores. On Hopper (sm_90a) four warps together multiply tiles that lie in shared memory,
# a unit for bulk copies brings the tiles there, and both run on their own while threads only start
# them and wait. Nothing of that is written in the program: a tile kernel is plain loops of this
# form, with an accumulator in scope "wgmma.accumulator":
@T.prim_func
def half(A: T.Buffer((N, 256), "float16"), B: T.Buffer((256, N), "float16"), C: T.Buffer((N, N))):
    for i, j, k in T.grid(N, N, 256):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")


sch = tw.tir.Schedule(half)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
i0, i1 = sch.split(i, [None, 64])
j0, j1 = sch.split(j, [None, 128])
step, k1 = sch.split(k, [None, 64])
sch.reorder(i0, j0, step, i1, j1, k1)
tile = sch.fuse(i0, j0)
sch.bind(tile, "blockIdx.x")
sch.annotate(tile, "tilewright.tile_stages", 4)  # slices of A and B in shared memory; 0: what fits
sch.annotate(tile, "tilewright.tile_consumers", 1)  # groups of four warps that multiply
sch.reverse_compute_at(sch.cache_write(block, 0, "wgmma.accumulator"), tile)
for operand in (0, 1):
    sch.compute_at(sch.cache_read(block, operand, "shared.dyn"), step)

# It is a program like any other, which the interpreter runs.
x, y = rng.random((N, 256)).astype("float16"), rng.random((256, N)).astype("float16")
exact = x.astype("float32") @ y.astype("float32")
z = np.empty((N, N), "float32")
oracle.run(sch.mod, x, y, z)
np.testing.assert_allclose(z, exact, rtol=1e-4)

# The pass LowerTileKernels gives threads their roles: one thread of a producer group starts copies
# (`tw_load_2d`), consumers multiply (`tw_wgmma_...`), and barriers in shared memory pass slices to
# and fro.
text = show("a tile kernel", sch.mod, (x, y), exact)
for call in ("tw_load_2d(", "tw_barrier_wait(", "tw_wgmma_m64n128k16_f32_f16_f16", "tw_store_2d("):
    assert call in text

# 5. Without writing a schedule: `default_schedule` picks a tile kernel by an analytic model of the
# GPU, and `tune_tir` measures others around it.
first = ms.default_schedule(half, TARGET)
instruction = re.findall(r"tw_wgmma_m64\w+", kernel_text(first.mod))[0]
print("\n=== the schedule without a search multiplies with", instruction)

if RUNS:
    database = ms.database.MemoryDatabase()
    ms.tune_tir(half, "cuda", max_trials_global=16, database=database, console=False)
    with database:
        run_on_gpu(tw.build(half, target="cuda"), (x, y), exact)
else:
    print("no GPU is here: nothing was timed or tuned")
