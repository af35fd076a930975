"""A hardware instruction of your own: say what it computes and how, and the tuner uses it.

The instruction here is made up: sixteen sums of two products each. What would be one call of an
LLVM intrinsic (see `tilewright/intrin/`) is a line of vector arithmetic.

    python examples/new_instruction.py
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import numpy as np

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.script import tir as T
from tilewright.testing.handwritten import matmul
from tilewright.tir import TensorIntrin

SIZE = 128
TRIALS = 8


@T.prim_func
def dot_16x2_description(
    A: T.Buffer((2,), "float32"),
    B: T.Buffer((2, 16), "float32"),
    C: T.Buffer((16,), "float32", scope="local"),
):
    for i, k in T.grid(16, 2):
        with T.block("update"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vk] * B[vk, vi]


@T.prim_func
def dot_16x2_implementation(
    A: T.Buffer((2,), "float32"),
    B: T.Buffer((2, 16), "float32"),
    C: T.Buffer((16,), "float32", scope="local"),
):
    with T.block("root"):
        first = T.broadcast(A[0], 16) * B[0, 0:16]
        C[0:16] = C[0:16] + first + T.broadcast(A[1], 16) * B[1, 0:16]


# Both must take the same buffers and, tried on random numbers, compute the same. Accumulators of
# scope "local" stay in registers. `features=["avx512f"]` would keep other processors away from it.
TensorIntrin.register("dot_16x2", dot_16x2_description, dot_16x2_implementation)


def main() -> None:
    """Let kernels around the instruction compete with the usual ones."""
    func = matmul(SIZE, SIZE, SIZE)
    space = ms.space_generator.PostOrderApply(
        sch_rules=[
            ms.schedule_rule.TensorTiling(["dot_16x2"]),
            *ms.schedule_rule.create("kernels"),
        ],
        postprocs="kernels",
        mutator_probs="kernels",
    )
    database = ms.tune_tir(
        func, "llvm", max_trials_global=TRIALS, space=space, seed=0, console=False
    )
    (workload,) = database.workloads()
    for record in database.get_top_k(workload, TRIALS):
        uses_it = any(inst.primitive.kind == "Tensorize" for inst in record.trace.insts)
        assert record.run_secs is not None
        print(f"{min(record.run_secs) * 1e6:6.1f} us {'with' if uses_it else 'without'} dot_16x2")

    best = ms.compile_tir(database, func, "llvm")
    assert best is not None
    print(best.mod.script())
    a, b = (np.random.default_rng(0).random((SIZE, SIZE), dtype="float32") for _ in range(2))
    c = np.full_like(a, np.nan)
    with database:
        tw.build(func)(a, b, c)
    print("right:", np.allclose(c, a @ b, rtol=1e-4))


if __name__ == "__main__":
    main()
