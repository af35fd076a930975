"""Before and after of every pass for GPUs, as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

import tilewright.codegen.cuda.pipeline  # noqa: F401 (registers the passes)
from tilewright.ir import PrimFunc, as_module
from tilewright.lowering import get_pass, list_passes
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.testing.gpu_programs import transposed
from tilewright.testing.tile_programs import THREAD_FORM, TILE_FORM

TO_FLAT = (
    "UnifyThreadBinding", "LowerCrossThreadReduction", "LowerInitBlock", "ConvertBlocksToOpaque",
    "PlanBufferAllocation", "CompactBufferAllocation", "LowerMatchBuffer", "LowerOpaqueBlock",
    "FlattenBuffer", "Simplify",
)  # fmt: skip

REVERSED = """
@T.prim_func
def main(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    X = T.alloc_buffer((8, 64), scope="shared")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for k in range(4):
            for t in T.thread_binding(16, thread="threadIdx.x"):
                for v in T.vectorized(4):
                    with T.block("X"):
                        vi = T.axis.spatial(8, b * 4 + k)
                        vj = T.axis.spatial(64, t * 4 + v)
                        X[vi, vj] = A[vi, vj]
            for i in range(4):
                for t in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(8, b * 4 + k)
                        vj = T.axis.spatial(64, i * 16 + t)
                        B[vi, vj] = X[vi, 63 - vj]
"""
ROW_SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 256), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in range(256 // THREADS):
            for t in T.thread_binding(THREADS, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(256, k * THREADS + t)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
"""
VIRTUAL = """
@T.prim_func
def main(A: T.Buffer((4, 8, 16), "float32"), B: T.Buffer((4, 8, 16), "float32")):
    X = T.alloc_buffer((4, 8, 16), scope="local")
    for v in T.thread_binding(4, thread="vthread.x"):
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for k in range(8):
                with T.block("X"):
                    vv, vk, vt = T.axis.remap("SSS", [v, k, t])
                    X[vv, vk, vt] = A[vv, vk, vt]
            for k in range(8):
                with T.block("B"):
                    vv, vk, vt = T.axis.remap("SSS", [v, k, t])
                    B[vv, vk, vt] = X[vv, 7 - vk, vt]
"""
PIPELINE = """
@T.prim_func
def main(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    X = T.alloc_buffer((8, 64), scope="shared")
    for t in T.thread_binding(16, thread="threadIdx.x"):
        for k in T.serial(
            8,
            annotations={
                "software_pipeline_stage": STAGES,
                "software_pipeline_order": ORDER,
                "software_pipeline_async_stages": ASYNC,
            },
        ):
            for v in T.vectorized(4):
                with T.block("X"):
                    vk = T.axis.spatial(8, k)
                    vj = T.axis.spatial(64, t * 4 + v)
                    NOTE
                    X[vk, vj] = A[vk, vj]
            for i in range(4):
                with T.block("B"):
                    vk = T.axis.spatial(8, k)
                    vj = T.axis.spatial(64, i * 16 + t)
                    B[vk, vj] = X[vk, 63 - vj]
"""
LATE = PIPELINE.replace("STAGES", "[0, 2]").replace("ORDER", "[0, 1]").replace("ASYNC", "[0]")
WARP = """
@T.prim_func
def main(A: T.Buffer((4, 32, 2), "float32"), B: T.Buffer((4, 32, 2), "float32")):
    X = T.alloc_buffer((4, 32, 2), scope="warp")
    for t in T.thread_binding(32, thread="threadIdx.x"):
        for k, v in T.grid(4, 2):
            with T.block("X"):
                vk, vt, vv = T.axis.remap("SSS", [k, t, v])
                X[vk, vt, vv] = A[vk, vt, vv]
        for k, v in T.grid(4, 2):
            with T.block("B"):
                vk, vt, vv = T.axis.remap("SSS", [k, t, v])
                B[vk, vt, vv] = X[vk, vt, vv] + X[vk, 31 - vt, 1 - vv]
"""
TWO_BUFFERS = """
@T.prim_func
def main(
    A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float16"), C: T.Buffer((256,), "float32")
):
    X = T.alloc_buffer((256,), "float32", scope="shared")
    Y = T.alloc_buffer((256,), "float16", scope="shared")
    Z = T.alloc_buffer((256,), "float32", scope="local")
    for t in T.thread_binding(256, thread="threadIdx.x"):
        with T.block("X"):
            v = T.axis.spatial(256, t)
            X[v] = A[v]
        with T.block("Z"):
            v = T.axis.spatial(256, t)
            Z[v] = X[255 - v]
        with T.block("Y"):
            v = T.axis.spatial(256, t)
            Y[v] = B[v]
        with T.block("C"):
            v = T.axis.spatial(256, t)
            C[v] = Z[v] + T.Cast("float32", Y[255 - v])
"""


def _in_one_thread(rows: int, columns: int, body: str) -> str:
    """A program of two arrays; one thread carries out a block."""
    array = f'T.Buffer(({rows}, {columns}), "float32")'
    return f"""
@T.prim_func
def main(A: {array}, B: {array}):
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(1, thread="threadIdx.x"):
            with T.block("B"):
                T.reads(A[0:{rows}, 0:{columns}])
                T.writes(B[0:{rows}, 0:{columns}])
{body}"""


TOTALS = _in_one_thread(8, 300, """\
                T.block_attr({"tilewright.running_totals": [0, 1, 0]})
                for row in range(8):
                    B[row, 0] = A[row, 0]
                    for k in range(299):
                        B[row, k + 1] = B[row, k] + A[row, k + 1]
""")  # fmt: skip
SORTED_ROWS = _in_one_thread(40, 2, """\
                for row in T.parallel(40):
                    keys = T.allocate([2], "float32", "global")
                    work = T.Buffer((2,), data=keys)
                    work[0] = T.min(A[row, 0], A[row, 1])
                    work[1] = T.max(A[row, 0], A[row, 1])
                    B[row, 0] = work[0]
                    B[row, 1] = work[1]
""")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A program, the passes that prepare it, and the pass that is shown."""

    name: str
    source: str
    prepare: tuple[str, ...] = ()
    target: str = ""

    @property
    def pass_name(self) -> str:
        return self.name.split("-")[0]


PLANNED = TO_FLAT[:5]
CASES = [
    Case("LowerTileKernels", TILE_FORM),
    Case("LowerTileKernels-threads", THREAD_FORM),
    Case("UnifyThreadBinding", REVERSED),
    Case("LowerCrossThreadReduction", ROW_SUMS.replace("THREADS", "64"), TO_FLAT[:1]),
    Case(
        "ManifestSharedMemoryLocalStage",
        LATE.replace("NOTE", 'T.block_attr({"tir.manifest_shared_memory_local_stage": 1})'),
        PLANNED,
    ),
    Case("InjectSoftwarePipeline", LATE.replace("NOTE", "pass"), (*PLANNED, TO_FLAT[5])),
    Case("FitVectorLoops", REVERSED.replace("vectorized(4)", "vectorized(8)")
         .replace("t * 4", "t * 8").replace("(16, thread", "(8, thread")
         .replace("range(4):\n                for t", "range(8):\n                for t")
         .replace("i * 16", "i * 8"), TO_FLAT),
    Case("InjectVirtualThread", VIRTUAL, TO_FLAT),
    Case(
        "InjectPTXAsyncCopy",
        LATE.replace("NOTE", "pass"),
        (*TO_FLAT[:6], "InjectSoftwarePipeline", *TO_FLAT[6:], "VectorizeLoop"),
    ),
    Case(
        "InjectPermutedLayout",
        str(transposed(64, "float16", 8, 1)),
        (*TO_FLAT, "FitVectorLoops", "VectorizeLoop"),
    ),
    *(
        Case(f"LowerThreadAllreduce-{threads}", ROW_SUMS.replace("THREADS", str(threads)), TO_FLAT)
        for threads in (8, 64, 128, 256)
    ),
    Case("LowerWarpMemory", WARP, TO_FLAT),
    Case("MergeSharedMemoryAllocations", TWO_BUFFERS, TO_FLAT),
    Case("ThreadSync", REVERSED, (*TO_FLAT, "VectorizeLoop")),
    Case("ThreadSync-merged", TWO_BUFFERS, (*TO_FLAT, "MergeSharedMemoryAllocations")),
    Case("SplitHostDevice", REVERSED, (*TO_FLAT, "VectorizeLoop", "ThreadSync", "HostABI")),
    Case("StartEarly", REVERSED,
         (*TO_FLAT, "VectorizeLoop", "ThreadSync", "HostABI", "SplitHostDevice"),
         "nvidia/nvidia-h200"),
    Case("LowerScans", TOTALS),
    Case("SpreadIndependentLoops", SORTED_ROWS),
    Case("MoveWorkspaces", SORTED_ROWS, ("SpreadIndependentLoops", *TO_FLAT)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_before_and_after(case: Case, golden: Callable[[str, str], None]) -> None:
    func = from_source(case.source)
    assert isinstance(func, PrimFunc)
    before = as_module(func)
    for name in case.prepare:
        before = get_pass(name)(before)
    after = get_pass(case.pass_name)(before, Target(case.target) if case.target else None)
    assert after is not before
    text = "\n\n".join(str(func) for func in after.functions.values())
    golden(f"{case.name}.txt", f"{before['main']}\n\n# --- {case.pass_name} ---\n\n{text}\n")


def test_every_pass_for_gpus_has_a_case() -> None:
    own = {name for name in list_passes() if ".gpu." in type(get_pass(name)).__module__}
    assert {case.pass_name for case in CASES} == own
