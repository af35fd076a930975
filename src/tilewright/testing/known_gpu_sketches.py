# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs and decisions that sketches for GPUs are compared by, as `known_sketches` for CPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tilewright import te
from tilewright.intrin.cuda import get_wmma_intrin_group
from tilewright.ir import PrimFunc, const
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.known_sketches import parse_decisions
from tilewright.testing.space_generation import Decision
from tilewright.testing.te_workload import (
    conv2d_nhwc,
    create_te_workload,
    matmul,
    matmul_relu,
)

# With the rules of kind "cuda" on the target nvidia/geforce-rtx-2080, index 0 of each workload.
CUDA: Mapping[str, tuple[Sequence[Decision], ...]] = MappingProxyType(
    {
        name: tuple(map(parse_decisions, sketches))
        for name, *sketches in (
            (
                "C1D",
                "T[1,1,1,1,1] T[4,8,1,1,4] T[1,2,4,2,8] T[1,1,3] T[16,2,2] C(3) C(2) C(1)",
            ),
            (
                "C2D",
                "T[1,1,1,1,1] T[1,1,14,8,1] T[2,14,1,4,1] T[8,4,1,1,2] T[1,1,7] T[1,7,1] T[1,1,3] "
                "C(1) C(3) C(1)",
            ),
            (
                "C3D",
                "T[1,1,1,1,1] T[1,1,4,2,1] T[1,4,7,2,2] T[2,2,7,1,4] T[1,1,2,32,1] "
                "T[1,7,1] T[1,7,1] T[1,1,7] T[1,3,1] C(3) C(2) C(1)",
            ),
            (
                "CAP",
                "T[1,1,1,1,1] T[4,1,1,2,1] T[8,1,1,1,1] T[2,1,2,1,1] T[1,1,2,1,2] T[4,1,1,1,8] "
                "T[3,1,1] T[3,1,1] T[2,1,2] T[8,4,1] C(1) C(3) C(2)",
            ),
            (
                "DEP",
                "T[1,1,1,1,1] T[1,4,1,4,7] T[1,1,7,16,1] T[1,2,2,8,1] T[1,3,1] T[1,1,3] "
                "C(2) C(2) C(1)",
            ),
            (
                "DIL",
                "T[1,1,1,1,1] T[109,1,1,1,1] T[1,109,1,1,1] T[2,1,1,8,4] T[7,1,1] T[7,1,1] "
                "T[3,1,1] C(1) C(3) C(3)",
            ),
            ("GMM", "T[1,1,1,1,1] T[1,32,1,2,2] T[1,1,2,64,1] T[1,32,4] C(1) C(0) C(4)"),
            (
                "GRP",
                "T[1,1,1,1,1] T[2,1,1,2,7] T[1,1,7,1,4] T[1,1,16,2,4] T[3,1,1] T[3,1,1] "
                "T[1,2,8] C(1) C(0) C(1)",
            ),
            (
                "T2D",
                "T[1,1,1,1,1] T[4,1,1,2,1] T[4,1,1,1,2] T[16,2,1,8,1] T[4,1,1] T[1,1,4] "
                "T[16,4,8] C(1) C(3) C(2)",
            ),
            ("NRM", "C(3)", "C(5) C(4)"),
            (
                "SFM",
                "C(0) C(1) C(3) C(2)",
                "C(0) C(1) C(3) C(1)",
                "C(7) C(3) C(0)",
                "C(7) C(0) C(0)",
            ),
            (
                "CBR",
                "T[1,1,1,1,1] T[1,2,8,1,7] T[7,1,16,1,1] T[2,2,1,2,8] T[7,1,1] T[1,1,7] "
                "T[3,1,1] C(0) C(0) C(3)",
            ),
            (
                "TBG",
                "T[1,1,1,1,1] T[1,6,1,2,1] T[1,4,8,1,4] T[4,8,4,1,1] T[8,4,2] C(2) C(3) C(4)",
            ),
        )
    }
)

RuleSpec = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class SingleRule:
    """A program, rules of their own, and the decisions of each sketch that they make of it."""

    make: Callable[[], PrimFunc]
    rules: Sequence[RuleSpec]
    sketches: Sequence[str]
    target: str = "nvidia/geforce-rtx-2080"
    decisions: Sequence[Sequence[Decision]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "decisions", tuple(map(parse_decisions, self.sketches)))


# --- programs -----------------------------------------------------------------------------------


def half_matmul_relu(size: int) -> PrimFunc:
    """Half precision, accumulated in single precision."""
    return te.create_prim_func(matmul_relu(size, size, size, "float16", "float32"))


def half_conv2d(kernel: int, channels: int, padding: int) -> PrimFunc:
    """As many channels in as out."""
    shape = 1, 16, 16, channels, channels, kernel
    return te.create_prim_func(conv2d_nhwc(*shape, 1, padding, 1, 1, "float16", "float32"))


def dense_int8(n: int, m: int, k: int) -> PrimFunc:
    x = te.placeholder((n, k), name="X", dtype="int8")
    w = te.placeholder((m, k), name="W", dtype="int8")
    axis = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(x[i, axis].astype("int32") * w[j, axis].astype("int32"), axis=axis),
        name="compute",
    )
    return te.create_prim_func([x, w, c])


def inlined_softmax() -> PrimFunc:
    """Softmax whose exponentials are computed where they are used."""
    sch = Schedule(create_te_workload("SFM", 0))
    sch.compute_inline("T_softmax_exp")
    return sch.mod["main"]


def argmax(rows: int, columns: int) -> PrimFunc:
    """The place and value of the largest element of each row."""

    @T.prim_func
    def main(
        idx: T.Buffer((rows, columns), "int32"),
        val: T.Buffer((rows, columns), "float32"),
        argmax_v0: T.Buffer((rows,), "int32"),
        argmax_v1: T.Buffer((rows,), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i0, i1 in T.grid(rows, columns):
            with T.block("argmax"):
                i, k = T.axis.remap("SR", [i0, i1])
                with T.init():
                    argmax_v0[i] = -1
                    argmax_v1[i] = T.min_value("float32")
                v_argmax_v0: T.int32 = T.Select(argmax_v1[i] >= val[i, k], argmax_v0[i], idx[i, k])
                v_argmax_v1: T.float32 = T.Select(
                    argmax_v1[i] >= val[i, k], argmax_v1[i], val[i, k]
                )
                argmax_v0[i] = v_argmax_v0
                argmax_v1[i] = v_argmax_v1

    return main


def element_wise() -> PrimFunc:
    a = te.placeholder((512, 512), name="A")
    c = te.compute((512, 512), lambda i, j: a[i, j] + const(1, "float32"), name="C")
    return te.create_prim_func([a, c])


# --- rules --------------------------------------------------------------------------------------

CUDA_TILES: Mapping[str, Any] = MappingProxyType(
    {
        "structure": "SSSRRSRS",
        "tile_binds": ["blockIdx.x", "vthread.x", "threadIdx.x"],
        "max_innermost_factor": 64,
        "vector_load_lens": [1, 2, 3, 4, 8, 16],
        "reuse_read": {"req": "must", "levels": [4], "scope": "shared"},
        "reuse_write": {"req": "must", "levels": [3], "scope": "local"},
    }
)
THREADS: RuleSpec = (
    "CrossThreadReduction",
    {"thread_extents": [4, 8, 16, 32, 64, 128, 256, 512]},
)
BIND: RuleSpec = (
    "AutoBind",
    {"max_threadblocks": 256, "thread_extents": [32, 64, 128, 256, 512, 1024]},
)


def tensor_core_rule(
    in_dtype: str = "float16",
    out_dtype: str = "float32",
    scope: str = "shared",
    trans_b: Sequence[bool] = (False,),
    pipeline: bool = False,
) -> RuleSpec:
    """Tiling for the matrix instructions of these types."""
    groups = [
        get_wmma_intrin_group(scope, scope, in_dtype, out_dtype, transposed)
        for transposed in trans_b
    ]
    options = {
        "intrin_groups": groups,
        "structure": "SSSRRSRS",
        "tile_binds": ["blockIdx.y", "blockIdx.x", "threadIdx.y"],
        "max_innermost_factor": 4,
        "vector_load_lens": [1, 2, 3, 4, 8, 16],
        "reuse_read": {"req": "must", "levels": [4], "scope": scope},
        "reuse_write": {"req": "must", "levels": [2], "scope": scope},
        "use_software_pipeline": pipeline,
    }
    return "MultiLevelTilingTensorCore", options


_TILES: RuleSpec = ("MultiLevelTiling", CUDA_TILES)

SINGLE: Mapping[str, SingleRule] = MappingProxyType(
    {
        "matmul": SingleRule(
            lambda: te.create_prim_func(matmul(512, 512, 512)),
            [_TILES],
            ["T[8,4,1,1,16] T[16,2,4,1,4] T[128,2,2] C(1) C(0)"],
        ),
        "matmul_relu": SingleRule(
            lambda: te.create_prim_func(matmul_relu(512, 512, 512)),
            [_TILES],
            ["T[8,8,2,2,2] T[8,8,4,1,2] T[8,8,8] C(1) C(3)"],
        ),
        "dense_dp4a": SingleRule(
            lambda: dense_int8(128, 128, 128),
            [("MultiLevelTilingWithIntrin", {"intrin_name": "dp4a", **CUDA_TILES})],
            ["T[1,16,2,2,2] T[1,32,1,4,1] T[1,1,32] C(0) C(0)"],
        ),
        "tensor_cores": SingleRule(
            lambda: half_matmul_relu(128),
            [tensor_core_rule()],
            ["T[4,1,1,1,2] T[2,2,2,1,1] T[1,4,2] C(3) C(3) C(0)"],
        ),
        "tensor_cores_or_not": SingleRule(
            lambda: half_matmul_relu(128),
            [tensor_core_rule(), _TILES],
            ["T[2,2,1,1,2] T[1,1,2,1,4] T[2,1,4] C(3) C(2) C(1)"],
        ),
        "tensor_cores_of_a_convolution": SingleRule(
            lambda: half_conv2d(3, 32, 1),
            [tensor_core_rule()],
            ["T[1,16,1,1,1] T[2,1,1,1,1] T[1,18,1] C(2) C(1) C(3)"],
        ),
        "tensor_cores_in_a_pipeline": SingleRule(
            lambda: half_matmul_relu(128),
            [tensor_core_rule(pipeline=True)],
            ["T[1,4,1,1,2] T[1,4,1,1,2] T[4,2,1] C(2) C(2) C(1)"],
        ),
        "tensor_cores_with_padding": SingleRule(
            lambda: half_matmul_relu(127),
            [tensor_core_rule()],
            ["T[4,1,1,1,2] T[2,2,2,1,1] T[1,4,2] C(3) C(3) C(0)"],
        ),
        "tensor_cores_of_a_small_convolution": SingleRule(
            lambda: half_conv2d(1, 64, 0),
            [tensor_core_rule()],
            ["T[1,1,1] T[1,1,1] T[8,2,1,1,1] T[2,1,2,1,1] T[1,1,4] C(1) C(0) C(2)"],
        ),
        "softmax": SingleRule(
            lambda: create_te_workload("SFM", 0), [THREADS], ["", "C(7)", "C(1)", "C(1) C(7)"]
        ),
        "inlined_softmax": SingleRule(
            inlined_softmax, [THREADS], ["", "C(4)", "C(7)", "C(7) C(0)"]
        ),
        "norm": SingleRule(lambda: create_te_workload("NRM", 0), [THREADS], ["", "C(6)"]),
        "argmax": SingleRule(lambda: argmax(128, 128), [THREADS], ["", "C(4)"]),
        "argmax_of_few": SingleRule(lambda: argmax(1, 32), [THREADS], ["", "C(4)"]),
        "element_wise": SingleRule(element_wise, [BIND], ["C(5)"]),
    }
)
