# mypy: disable-error-code="valid-type, no-untyped-def"
"""`DisallowDynamicLoop`."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import DisallowDynamicLoop


@T.prim_func
def static(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


@T.prim_func
def triangle(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj]


@T.prim_func
def in_init(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(B[vi, 0:8])
            with T.init():
                for j in range(vi):
                    B[vi, j] = T.float32(0)
            B[vi, 0] = B[vi, 0] + A[vi, vk]


def verdict(*functions: object) -> bool:
    module = IRModule({f"f{number}": func for number, func in enumerate(functions)})  # type: ignore[misc]
    return DisallowDynamicLoop().apply(Schedule(module))


def test_extents_must_be_numbers() -> None:
    assert verdict(static) is True
    assert verdict(triangle) is False


def test_all_functions_and_initialisations_count() -> None:
    assert verdict(static, triangle) is False
    assert verdict(in_init) is False
