"""`TensorTiling`: which blocks instructions fit, how they are packed, shifted and padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright.intrin  # noqa: F401  (registers the instructions)
from tilewright import te
from tilewright.driver import build, lower
from tilewright.errors import RegistryError
from tilewright.ir import IntImm, IRModule, as_module, maximum, minimum, tensor_intrin
from tilewright.ir.annotation_keys import (
    AUTO_TENSORIZE,
    LAYOUT_REWRITE_PREPROC,
    STREAM_STORES,
    TILING_STRUCTURE,
)
from tilewright.ir.tensor_intrin import TensorIntrin, intrins_for
from tilewright.schedule import Schedule, Trace
from tilewright.space.defaults import KERNEL_INTRINSICS
from tilewright.space.generators.default_space import DefaultSpace
from tilewright.space.tensor.instruction import TensorGroup, TensorTile
from tilewright.space.tensor.tensor_tiling import TensorTiling
from tilewright.target import Target
from tilewright.testing.int8_workloads import int8_batch_matmul, int8_conv, int8_dense, int8_gemm
from tilewright.testing.space_generation import SpaceTask, sampling_steps
from tilewright.testing.tile_simulator import run_in_tiles

VNNI = "llvm -mcpu=icelake-server -num-cores=2"
AMX = "llvm -mcpu=sapphirerapids -num-cores=2"
PLAIN_AVX512 = "llvm -mcpu=skylake-avx512 -num-cores=2"
NAMES = ("dot_16x4_vnni_s8u8_local", "dot_16x4_vnni_local")
Tensors = tuple[te.Tensor, ...]
Arrays = list[npt.NDArray[np.generic]]


def module_of(tensors: Tensors) -> IRModule:
    return as_module(te.create_prim_func(list(tensors)))


def tiled(
    module: IRModule, block: str, names: tuple[Any, ...] = NAMES, target: str = VNNI
) -> list[Schedule]:
    """What the rule makes of a block; the last one is what it leaves to others."""
    rule = TensorTiling(names)
    rule._initialize_with_tune_context(SpaceTask(module, Target(target)))
    sch = Schedule(module, seed=1, debug_mask="all")
    return rule.apply(sch, sch.get_block(block))


def again(sketch: Schedule, module: IRModule, seed: int) -> Schedule:
    """The sketch with other decisions."""
    assert sketch.trace is not None
    sch = Schedule(module, seed=seed)
    Trace(sketch.trace.insts, {}).apply_to_schedule(sch, remove_postproc=False)
    return sch


def inputs_of(tensors: Tensors) -> Arrays:
    """Random bytes with the extremes among them."""
    rng = np.random.default_rng(3)
    made: Arrays = []
    for tensor in tensors[:-1]:
        shape = tuple(extent.value for extent in tensor.shape if isinstance(extent, IntImm))
        low, high = np.iinfo(str(tensor.dtype)).min, np.iinfo(str(tensor.dtype)).max
        values = rng.integers(low, high + 1, shape)
        corners = rng.integers(0, 4, shape)
        values[corners == 0], values[corners == 1] = low, high
        made.append(values.astype(str(tensor.dtype)))
    return made


def check(
    tensors: Tensors, block: str, expected: Callable[..., npt.NDArray[np.generic]], seeds: int = 1
) -> list[Schedule]:
    """All sketches, with some decisions each, compute what they should."""
    module = module_of(tensors)
    *sketches, plain = tiled(module, block)
    assert sketches
    assert TILING_STRUCTURE not in plain.mod.script()
    arguments = inputs_of(tensors)
    wanted = expected(*arguments)
    for sketch in sketches:
        for seed in range(seeds):
            result = np.zeros_like(wanted)
            build(again(sketch, module, seed).mod, "llvm")(*arguments, result)
            np.testing.assert_array_equal(result, wanted)
    return sketches


def product(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


# --- products -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["u8s8", "s8s8", "u8u8"])
@pytest.mark.parametrize(
    "shape", [(30, 64, 24), (5, 37, 19), (64, 16, 4), (1, 48, 32), (9, 192, 80)]
)
def test_products(form: str, shape: tuple[int, int, int]) -> None:
    check(int8_gemm(*shape, form=form), "C", product)


@pytest.mark.parametrize("form", ["u8s8", "s8s8"])
def test_weights_by_rows(form: str) -> None:
    tensors = int8_dense(20, 48, 36, form)
    check(tensors, tensors[-1].op.name, lambda data, weight: product(data, weight.T))


@pytest.mark.parametrize(("depth", "lanes"), [(128, 16), (96, 8), (80, 4), (84, 0)])
@pytest.mark.parametrize("form", ["s8s8", "u8u8"])
def test_rows_are_summed_by_an_instruction(form: str, depth: int, lanes: int) -> None:
    """Where it is the right operand that is shifted, results start from sums of rows."""
    sketches = check(int8_gemm(4, 16, depth, form=form), "C", product)
    names = [
        inst.attrs[0]
        for sketch in sketches
        if sketch.trace is not None
        for inst in sketch.trace.insts
        if inst.primitive.kind == "Tensorize" and inst.attrs[0].endswith("_row")
    ]
    dtype = {"s8s8": "int8", "u8u8": "uint8"}[form]
    assert set(names) == ({f"sum_{lanes}x4_{dtype}_row"} if lanes else set())


def test_batches() -> None:
    def expected(x: npt.NDArray[np.generic], y: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
        return product(x, y.transpose(0, 2, 1))

    check(int8_batch_matmul(3, 20, 32, 16), "Z", expected)


def test_constants_are_packed_once() -> None:
    tensors = int8_gemm(16, 32, 16, layout_free=True)
    for sketch in check(tensors, "C", product):
        copies = [
            sref.block.name_hint
            for sref in sketch.state.infos
            if LAYOUT_REWRITE_PREPROC in sref.block.annotations
        ]
        assert copies == ["B_global_o"]


def test_what_follows_takes_results_from_registers() -> None:
    a, b, c = int8_gemm(20, 32, 16)
    d = te.compute(
        (20, 32),
        lambda i, j: minimum(maximum(c[i, j] >> 6, 0), 255).astype("uint8"),
        name="D",
    )
    assert isinstance(d, te.Tensor)

    def expected(x: npt.NDArray[np.generic], y: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
        clipped: npt.NDArray[np.uint8] = np.clip(product(x, y) >> 6, 0, 255).astype(np.uint8)
        return clipped

    (sketch, *_) = check((a, b, d), "C", expected)
    assert "C_local" in sketch.mod.script()


# --- tile registers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((32, 64, 48), "amx_dot_32x32x32_bf16"),  # three quarters of it are used
        ((32, 64, 62), "amx_dot_32x32x32_bf16"),
        ((4, 64, 48), "dot_16x2_bf16_local"),  # a tenth
    ],
)
def test_tiles_are_worth_some_padding(shape: tuple[int, int, int], expected: str) -> None:
    sketches = tiled(module_of(int8_gemm(*shape, form="bf16")), "C", KERNEL_INTRINSICS, AMX)[:-1]
    for sketch in sketches:
        assert sketch.trace is not None
        assert expected in [
            inst.attrs[0] for inst in sketch.trace.insts if inst.primitive.kind == "Tensorize"
        ]


@pytest.mark.parametrize(
    ("shape", "form", "size"),
    [((64, 32, 64), "s8s8", 32), ((16, 48, 64), "u8s8", 16), ((20, 33, 70), "u8u8", 32)],
)
def test_tile_registers(shape: tuple[int, int, int], form: str, size: int) -> None:
    """What needs no padding is preferred; all of it computes the same."""
    tensors = int8_gemm(*shape, form=form)
    module = module_of(tensors)
    amx = tuple(name for name in KERNEL_INTRINSICS if name.startswith("amx"))
    (sketch, *_) = tiled(module, "C", amx, AMX)
    assert sketch.trace is not None
    used = [inst.attrs[0] for inst in sketch.trace.insts if inst.primitive.kind == "Tensorize"]
    depth = f"{size}x{size}x64"
    assert {f"amx_dot_{depth}_{form}", f"amx_fill_{size}x{size}_int32"} <= set(used)
    arguments = inputs_of(tensors)
    result = np.zeros(shape[:2], np.int32)
    run_in_tiles(lower(sketch.mod, Target(AMX)), *arguments, result)
    np.testing.assert_array_equal(result, product(*arguments))


# --- convolutions -------------------------------------------------------------------------------


def convolved(padding: int) -> Callable[..., npt.NDArray[np.int32]]:
    def expected(x: npt.NDArray[np.generic], w: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
        sides = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        wide = np.pad(x.astype(np.int64), sides)
        rows, columns = (wide.shape[n] - w.shape[n - 1] + 1 for n in (1, 2))
        total: npt.NDArray[np.int32] = sum(
            wide[:, r : r + rows, s : s + columns, :] @ w[r, s].astype(np.int64)
            for r in range(w.shape[0])
            for s in range(w.shape[1])
        ).astype(np.int32)
        return total

    return expected


@pytest.mark.parametrize("form", ["u8s8", "s8s8"])
@pytest.mark.parametrize(("kernel", "padding"), [(3, 1), (1, 0)])
def test_convolutions(form: str, kernel: int, padding: int) -> None:
    tensors = int8_conv(1, 9, 9, 16, 32, kernel, 1, padding, form)
    check(tensors, tensors[-1].op.name, convolved(padding))


@pytest.mark.parametrize(
    ("channels", "kernel", "stride"), [((3, 20), 3, 1), ((16, 20), 1, 1), ((6, 32), 3, 2)]
)
def test_channels_that_do_not_divide(channels: tuple[int, int], kernel: int, stride: int) -> None:
    """Data and weights are padded; the weights, which are constants, while they are packed."""
    padding = kernel // 2
    tensors = int8_conv(1, 9, 9, *channels, kernel, stride, padding)

    def expected(x: npt.NDArray[np.generic], w: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
        whole: npt.NDArray[np.int32] = convolved(padding)(x, w)
        return whole[:, ::stride, ::stride]

    for sketch in check(tensors, tensors[-1].op.name, expected):
        copies = [
            sref.block.name_hint
            for sref in sketch.state.infos
            if LAYOUT_REWRITE_PREPROC in sref.block.annotations
        ]
        assert copies in (["kernel_global_global"], ["kernel_global_o"])


def test_weights_in_the_order_of_the_instruction_are_not_copied() -> None:
    data = te.placeholder((2, 6, 8), "uint8", name="data")
    weight = te.placeholder((3, 2, 2, 16, 4), "int8", name="weight")  # chunk, k, k4, lane, 4
    chunk, outer, step = (
        te.reduce_axis((0, n), name) for n, name in ((2, "c"), (2, "o"), (4, "s"))
    )
    out = te.compute(
        (3, 6, 16),
        lambda n, i, j: te.sum(
            data[chunk, i, outer * 4 + step].astype("int32")
            * weight[n, chunk, outer, j, step].astype("int32"),
            axis=[chunk, outer, step],
        ),
        name="out",
    )
    assert isinstance(out, te.Tensor)

    def expected(x: npt.NDArray[np.generic], w: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
        split = x.reshape(2, 6, 2, 4).astype(np.int64)
        total: npt.NDArray[np.int64] = np.einsum("cios,ncojs->nij", split, w.astype(np.int64))
        return total.astype(np.int32)

    for sketch in check((data, weight, out), "out", expected):
        assert "weight_global" not in sketch.mod.script()


# --- choices ------------------------------------------------------------------------------------


def test_tiles_fill_the_registers() -> None:
    sketches = tiled(module_of(int8_gemm(512, 512, 512)), "C")[:-1]
    tiles = []
    for sketch in sketches:
        assert sketch.trace is not None
        rows, *_ = [[int(n) for n in step.attrs[0]] for step in sampling_steps(sketch.trace)]
        script = sketch.mod.script()
        vectors = next(count for count in (4, 2) if f"in T.unroll({count})" in script)
        tiles.append((vectors, rows))
    assert [vectors for vectors, _ in tiles] == [2, 4, 2, 4]  # packed before, or in each task
    for vectors, rows in tiles:
        assert all(12 <= vectors * size <= 31 - vectors for size in rows)


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        (int8_gemm(2048, 1024, 16), True),
        (int8_gemm(2048, 1008, 16), False),  # less than is worth it
        (int8_gemm(2049, 1024, 16), True),
    ],
)
def test_large_results_are_stored_past_the_caches(tensors: Tensors, expected: bool) -> None:
    for sketch in tiled(module_of(tensors), "C")[:-1]:
        assert (STREAM_STORES in sketch.mod.script()) == expected


def test_parts_of_cache_lines_are_not_stored_past_the_caches() -> None:
    a, b, c = int8_gemm(8192, 1024, 16)
    d = te.compute((8192, 1024), lambda i, j: c[i, j].astype("uint8"), name="D")
    assert isinstance(d, te.Tensor)
    scripts = [sketch.mod.script() for sketch in tiled(module_of((a, b, d)), "C")[:-1]]
    wide = ["in T.vectorized(64)" in script for script in scripts]  # a line of bytes
    assert wide == [STREAM_STORES in script for script in scripts]
    assert set(wide) == {True, False}


def test_blocks_that_do_not_fit() -> None:
    (left,) = tiled(module_of(int8_gemm(16, 32, 16, form="f32")), "C")
    assert TILING_STRUCTURE not in left.mod.script()
    a = te.placeholder((16, 16), "uint8", name="A")  # the reduction is not contiguous in A
    b = te.placeholder((16, 32), "int8", name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute(
        (16, 32),
        lambda i, j: te.sum(a[k, i].astype("int32") * b[k, j].astype("int32"), axis=[k]),
        name="C",
    )
    assert isinstance(c, te.Tensor)
    assert len(tiled(module_of((a, b, c)), "C")) == 1


def test_a_target_without_the_instruction() -> None:
    module = module_of(int8_gemm(16, 32, 16))
    assert len(tiled(module, "C", target=PLAIN_AVX512)) == 1


def test_an_unknown_instruction() -> None:
    with pytest.raises(RegistryError, match="no tensor intrinsic is called 'dot_vnny'"):
        TensorTiling(["dot_vnny"])


def test_units_of_instructions() -> None:
    intrin = TensorIntrin.get("dot_16x4_vnni_local")
    assert intrin is not None
    tile = TensorTile.of(intrin)
    assert tile is not None
    assert (tile.rows, tile.lanes, tile.depth) == (1, 16, 4)
    operands = (tile.left, tile.right, tile.out)
    assert [each.buffer.dtype for each in operands] == ["uint8", "int8", "int32"]
    assert tile.out.buffer.scope == "local"
    pack = TensorIntrin.get("pack_4x16_int8")
    assert pack is not None
    assert TensorTile.of(pack) is None


# --- the default space --------------------------------------------------------------------------


def test_tensorized_and_plain_sketches_compete() -> None:
    tensors = int8_dense(64, 64, 64)
    module = module_of(tensors)
    space = DefaultSpace()
    space._initialize_with_tune_context(SpaceTask(module, Target(VNNI)))
    kinds = []
    for sketch in space.generate_design_space(module):
        assert sketch.trace is not None
        ours = any(inst.primitive.kind == "Tensorize" for inst in sketch.trace.insts)
        theirs = AUTO_TENSORIZE in sketch.mod.script()
        kinds.append("tensor tiles" if ours else "multi-level" if theirs else "plain")
    assert set(kinds) == {"tensor tiles", "multi-level", "plain"}
    names = [type(postproc).__name__ for postproc in space.postprocs]
    assert "RewriteTensorize" in names
    assert {type(m).__name__ for m in space.mutator_probs} >= {
        "MutateTileSize",
        "MutateCategorical",
    }
    assert sum(space.mutator_probs.values()) == pytest.approx(1.0)


# --- instructions by what they compute ----------------------------------------------------------


def test_accumulators_of_an_instruction_are_set_and_stored_by_others() -> None:
    assert TensorGroup.of("amx_dot_16x16x32_bf16") == TensorGroup(
        "amx_dot_16x16x32_bf16", "amx_fill_16x16_float32", "amx_store_16x16_float32"
    )
    assert TensorGroup.of("dot_16x4_vnni_local") == TensorGroup("dot_16x4_vnni_local")


def test_an_instruction_whose_accumulators_nothing_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_intrin, "_by_purpose", {})
    with pytest.raises(RegistryError) as caught:
        TensorGroup.of("amx_dot_16x16x64_s8s8")
    assert str(caught.value) == (
        "tensor intrinsic 'amx_dot_16x16x64_s8s8' accumulates in scope 'amx.tmm', for which no "
        "intrinsic computes 'fill' of 16x16 int32; give its name, too: {'compute': ..., 'fill': "
        "..., 'store': ...}"
    )


def test_instructions_are_found_by_kind_type_and_features() -> None:
    vnni = frozenset({"avx512vnni"})
    assert [name for name, _ in intrins_for("row sum", "int8", vnni)] == ["sum_16x4_int8_row"]
    wider = [name for name, _ in intrins_for("row sum", "int8", vnni | {"avx512vl"})]
    assert wider == ["sum_16x4_int8_row", "sum_8x4_int8_row", "sum_4x4_int8_row"]
    assert list(intrins_for("row sum", "float32")) == []
