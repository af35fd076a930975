"""`TensorTiling` where extents are no multiples of an instruction's: operands are copied once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tilewright.intrin  # noqa: F401  (registers the instructions)
from tilewright import te
from tilewright.driver import build, lower
from tilewright.ir import BlockRealize, IRModule, as_module
from tilewright.schedule import Schedule, Trace
from tilewright.space.defaults import KERNEL_INTRINSICS
from tilewright.space.tensor.tensor_tiling import TensorTiling
from tilewright.target import Target
from tilewright.testing.int8_workloads import FORMS, int8_batch_matmul, int8_gemm
from tilewright.testing.space_generation import SpaceTask
from tilewright.testing.tile_simulator import run_in_tiles
from tilewright.tune import default_schedule

AMX = "llvm -mcpu=sapphirerapids -num-cores=2"
BF16 = "llvm -mcpu=cooperlake -num-cores=2"
VNNI = "llvm -mcpu=icelake-server -num-cores=2"
AVX_VNNI = "llvm -mcpu=alderlake -num-cores=2"
Shape = tuple[int, int, int]
Array = npt.NDArray[Any]

PADDED = [
    ((32, 64, 112), AMX, "s8s8"),  # all groups of four are whole, the last tile is not
    ((32, 64, 70), AMX, "s8s8"),
    ((20, 33, 112), AMX, "u8s8"),
    ((32, 64, 48), AMX, "bf16"),
    ((30, 65, 49), AMX, "bf16"),
    ((9, 48, 22), VNNI, "u8s8"),
    ((9, 48, 22), VNNI, "s8s8"),
    ((9, 48, 22), VNNI, "u8u8"),
    ((9, 37, 21), VNNI, "s8s8"),
    ((5, 16, 3), VNNI, "u8s8"),
    ((9, 48, 33), BF16, "bf16"),
    ((9, 37, 33), BF16, "bf16"),
    ((9, 24, 22), AVX_VNNI, "u8s8"),
]


def module_of(tensors: tuple[te.Tensor, ...]) -> IRModule:
    return as_module(te.create_prim_func(list(tensors)))


def tiled(module: IRModule, block: str, target: str) -> list[Schedule]:
    names: tuple[Any, ...] = KERNEL_INTRINSICS
    rule = TensorTiling(names)
    rule._initialize_with_tune_context(SpaceTask(module, Target(target)))
    sch = Schedule(module, seed=1, debug_mask="all")
    return rule.apply(sch, sch.get_block(block))[:-1]


def copies(sch: Schedule, name: str) -> list[str]:
    """The scopes of all copies of a parameter."""
    body = sch.mod["main"].body
    assert isinstance(body, BlockRealize)
    made = body.block.alloc_buffers
    return sorted(buffer.scope for buffer in made if buffer.name.startswith(f"{name}_"))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Random numbers with the extremes among them; sums of the floats are exact."""
    corners = rng.integers(0, 4, shape)
    if dtype == "bfloat16":
        values: Array = rng.integers(-8, 9, shape).astype(np.float32)
        values[rng.integers(0, 200, shape) == 0] = np.inf
        values[rng.integers(0, 400, shape) == 0] = np.nan
        return values.astype(ml_dtypes.bfloat16)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = rng.integers(low, high + 1, shape)
    values[corners == 0], values[corners == 1] = low, high
    return values.astype(dtype)


def check(sch: Schedule, target: str, form: str, shape: Shape, across: bool = False) -> None:
    """A schedule of `A @ B`, or of `A @ B.T` in batches of one, computes that."""
    rows, columns, depth = shape
    left, right, out = FORMS[form]
    rng = np.random.default_rng(7)
    a, b = numbers(rng, (rows, depth), left), numbers(rng, (depth, columns), right)
    with np.errstate(invalid="ignore"):
        wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(out)
    result = np.zeros_like(wanted)
    arguments = [a, b, result]
    if across:
        arguments = [a[None], np.ascontiguousarray(b.T)[None], result[None]]
    if "amx" in str(sch.trace):
        run_in_tiles(lower(sch.mod, Target(target)), *arguments)
    else:
        build(sch.mod, "llvm")(*arguments)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(("shape", "target", "form"), PADDED)
def test_the_right_operand_is_padded_while_it_is_packed(
    shape: Shape, target: str, form: str
) -> None:
    module = module_of(int8_gemm(*shape, form=form))
    sketches = tiled(module, "C", target)
    assert sketches
    for sketch in sketches:
        assert copies(sketch, "B") == ["global", "local"]
        assert copies(sketch, "A") in (["global"], [])  # nor is the left one copied twice
        assert sketch.trace is not None
        other = Schedule(module, seed=2)
        Trace(sketch.trace.insts, {}).apply_to_schedule(other, remove_postproc=False)
        check(other, target, form, shape)


@pytest.mark.parametrize(
    ("form", "target"), [("u8s8", VNNI), ("s8s8", VNNI), ("bf16", BF16), ("s8s8", AMX)]
)
def test_so_is_one_whose_rows_are_columns(form: str, target: str) -> None:
    shape = (32, 48, 45)
    for sketch in tiled(module_of(int8_batch_matmul(1, *shape, form=form)), "Z", target):
        assert copies(sketch, "Y") == ["global", "local"]
        check(sketch, target, form, shape, across=True)


def test_what_else_is_summed_up_is_padded_first() -> None:
    """There is no instruction for sums of eight packed columns: two blocks read the padding."""
    shape = (9, 24, 22)
    for sketch in tiled(module_of(int8_gemm(*shape, form="s8s8")), "C", AVX_VNNI):
        assert copies(sketch, "B") == ["global", "global"]
        check(sketch, AVX_VNNI, "s8s8", shape)


@pytest.mark.parametrize("form", ["s8s8", "bf16"])
def test_whole_units_are_packed_without_checks(form: str) -> None:
    for sketch in tiled(module_of(int8_gemm(32, 64, 1008, form=form)), "C", AMX):
        script = lower(sketch.mod, Target(AMX)).script()
        loads = [line for line in script.splitlines() if " = B_1" in line]
        assert loads
        assert not any("predicate" in line for line in loads)
        assert "if_then_else" not in script


@pytest.mark.parametrize(
    ("depth", "target", "form", "expected"),
    [
        (1008, AMX, "s8s8", "amx_dot_32x32x64_s8s8"),
        (1008, AMX, "bf16", "amx_dot_32x32x32_bf16"),
        (1006, VNNI, "u8s8", "dot_16x4_vnni_local"),
        (1006, VNNI, "s8s8", "dot_16x4_vnni_s8u8_local"),
        (1001, BF16, "bf16", "dot_16x2_bf16_local"),
    ],
)
def test_without_a_search(depth: int, target: str, form: str, expected: str) -> None:
    sch = default_schedule(module_of(int8_gemm(32, 2048, depth, form=form)), Target(target))
    assert expected in str(sch.trace)
    assert copies(sch, "B") == ["global", "local"]
