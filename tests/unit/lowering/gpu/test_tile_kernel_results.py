"""Tile kernels compute what NumPy does, in whichever order their warps take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import ir, te
from tilewright.ir.annotation_keys import (
    ALLOW_TF32,
    CLUSTER_BLOCKS,
    FAST_SUMS,
    TILE_CONSUMERS,
    TILE_SPLITS,
    TILE_STAGES,
)
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.space.gpu.tile_rule import TileShape, Way
from tilewright.space.gpu.warp_group_tiling import WarpGroupTiling
from tilewright.target import Target
from tilewright.testing.gpu_lowering import lower_for_gpu, random_arrays
from tilewright.testing.simt import run
from tilewright.testing.simt.tensor_maps import rounded_to_tf32
from tilewright.testing.te_workload import conv2d_nhwc
from tilewright.testing.tile_kernel_runs import (
    convolved,
    hopper,
    ordered_product,
    results,
    tile_kernel,
)
from tilewright.testing.tile_programs import TILE_FORM, tile_func

F16, HALF = ("float16", "float32", "float32"), ("float16", "float32", "float16")
BF16, INT8 = ("bfloat16", "float32", "bfloat16"), ("int8", "int32", "int32")
# How far results may be from exact ones, as a part of the largest of them.
_TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3, "int32": 0.0}


def check(func: ir.PrimFunc, module: ir.IRModule, expected: Any, seed: int = 0) -> None:
    found, arrays = results(func, module, seed)
    wanted = expected(*arrays)
    first, *_, last = (buffer.dtype for buffer in func.buffer_map.values())
    # Tensor cores keep 14 digits of what 128 products of 8-bit floats add up to.
    tolerance = 2e-4 if first.is_float and first.bits == 8 else _TOLERANCE[str(last)]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * abs(wanted).max())


def multiplied(order: str, bias: bool = False) -> Any:
    def expected(left: Any, right: Any, shift: Any = 0) -> Any:
        a, b = (
            each.T if way == "t" else each for each, way in zip((left, right), order, strict=True)
        )
        return np.maximum(a @ b + shift, 0) if bias else a @ b

    return expected


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize(
    ("sizes", "dtypes", "order"),
    [
        ((128, 64, 128), F16, "nn"),
        ((200, 72, 136), HALF, "nn"),  # nothing divides
        ((136, 88, 72), BF16, "nt"),
        ((72, 264, 64), HALF, "tn"),  # one step
        ((64, 96, 200), F16, "tt"),
        ((200, 48, 144), INT8, "nt"),
        ((8, 16, 24), F16, "nn"),  # smaller than any tile
    ],
    ids=str,
)
def test_products_on_warp_groups(
    sizes: tuple[int, int, int], dtypes: tuple[str, str, str], order: str, sketch: int
) -> None:
    func = ordered_product(sizes, dtypes, order)
    check(func, tile_kernel(func, hopper(2), sketch), multiplied(order), seed=sketch)


# --- types ---------------------------------------------------------------------------------------

TWO_GROUPS = {TILE_CONSUMERS: 2}
E4M3, E5M2, FLOAT = "float8_e4m3fn", "float8_e5m2", "float32"


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize("operands", [(E4M3, E4M3), (E5M2, E5M2), (E4M3, E5M2)], ids=str)
def test_products_of_8_bit_floats(operands: tuple[str, str], sketch: int) -> None:
    func = ordered_product((136, 80, 400), (*operands, FLOAT, FLOAT), "nt")
    check(func, tile_kernel(func, hopper(2), sketch), multiplied("nt"), seed=sketch)


def error_of_long_sums(func: ir.PrimFunc) -> float:
    """Of sums of 1024 numbers from zero to one, as tensor cores add up."""
    generator = np.random.default_rng(1)
    arrays = [
        generator.random(shape_of(buffer)).astype(to_numpy(buffer.dtype))
        for buffer in func.buffer_map.values()
    ]
    run(tile_kernel(func, hopper()), arrays)
    left, right, found = (each.astype(np.float64) for each in arrays)
    wanted = left @ right.T
    return float(abs(found - wanted).max() / abs(wanted).max())


def shape_of(buffer: ir.Buffer) -> list[int]:
    return [int(extent.value) for extent in buffer.shape if isinstance(extent, ir.IntImm)]


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_digits_of_sums_of_8_bit_floats(dtype: str) -> None:
    func = ordered_product((64, 32, 1024), (dtype, FLOAT, FLOAT), "nt")
    assert error_of_long_sums(func) < 3e-4
    assert error_of_long_sums(func.with_attr(FAST_SUMS, 1)) > 5e-4


@pytest.mark.parametrize("columns", [64, 32, 16])
def test_sums_are_taken_over_part_by_part(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupLayout, "promoted_columns", columns)
    shape = TileShape(256, (64,), 128, TWO_GROUPS)
    monkeypatch.setattr(WarpGroupTiling, "ways", (Way([shape], packs_matrices=True),))
    func = ordered_product((300, 100, 400), (E4M3, FLOAT, FLOAT), "nt")
    module = tile_kernel(func, hopper(1), annotations={TILE_STAGES: 2})
    check(func, module, multiplied("nt"), seed=columns)


@pytest.mark.parametrize("order", ["nt", "nn", "tt"])
def test_products_of_tf32(order: str) -> None:
    """Operands are rounded, not cut off; their products are exact."""
    func = ordered_product((72, 48, 72), (FLOAT, FLOAT, FLOAT), order).with_attr(ALLOW_TF32, True)
    module = tile_kernel(func, hopper())
    assert "_f32_tf32_tf32_t00" in str(module)

    def expected(left: Any, right: Any) -> Any:
        rounded = (rounded_to_tf32(each.astype(np.float32)) for each in (left, right))
        return multiplied(order)(*(each.astype(np.float64) for each in rounded))

    check(func, module, expected)


@pytest.mark.parametrize(
    ("sizes", "dtypes", "order"),
    [
        ((72, 48, 144), INT8, "nn"),
        ((72, 48, 144), INT8, "tt"),
        ((72, 48, 144), ("uint8", "int8", "int32", "int32"), "nt"),
        ((72, 48, 144), ("int8", "uint8", "int32", "int32"), "tn"),
        ((70, 45, 131), INT8, "nn"),  # no row begins at a multiple of 16 bytes
        ((70, 45, 131), HALF, "nt"),
        ((67, 33, 90), ("float16", "float16", "float16"), "nn"),
    ],
    ids=str,
)
def test_operands_and_results_that_other_kernels_bring_into_order(
    sizes: tuple[int, int, int], dtypes: tuple[str, ...], order: str
) -> None:
    func = ordered_product(sizes, dtypes, order)
    module = tile_kernel(func, hopper(2), rule="WarpGroupTiling ElementKernels")
    check(func, module, multiplied(order))


@pytest.mark.parametrize("stages", [2, 3, 8])
@pytest.mark.parametrize("processors", [1, 3])
def test_stages_are_a_ring_over_all_tiles_of_a_block(stages: int, processors: int) -> None:
    func = ordered_product((136, 200, 328), F16)
    module = tile_kernel(func, hopper(processors), annotations={TILE_STAGES: stages})
    assert f"output_map, {processors}, 256, " in str(module["main"])  # blocks and threads
    check(func, module, multiplied("nn"), seed=stages)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_turns_gives_the_same(seed: int) -> None:
    func = ordered_product((128, 128, 256), F16)
    module = tile_kernel(func, hopper(1), annotations={TILE_STAGES: 2})
    check(func, module, multiplied("nn"), seed)


@pytest.mark.parametrize("sketch", range(2))
@pytest.mark.parametrize("dtypes", [F16, HALF])
def test_bias_and_relu_are_done_on_the_way_out(dtypes: tuple[str, str, str], sketch: int) -> None:
    func = ordered_product((136, 72, 128), dtypes, bias=True)
    module = tile_kernel(func, hopper(2), sketch)
    assert len(module.functions) == 2  # the host, and one kernel
    check(func, module, multiplied("nn", bias=True), seed=sketch)


# --- results that threads write ------------------------------------------------------------------


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize("splits", [2, 4, 8])
@pytest.mark.parametrize(
    ("sizes", "dtypes", "order", "bias"),
    [
        ((72, 40, 600), HALF, "nn", True),
        ((64, 96, 1024), F16, "nt", False),
        ((72, 48, 1100), INT8, "nt", False),
        ((33, 35, 517), HALF, "tn", True),  # nothing is aligned
    ],
    ids=str,
)
def test_blocks_that_share_a_tile(
    sizes: tuple[int, int, int],
    dtypes: tuple[str, str, str],
    order: str,
    bias: bool,
    splits: int,
    sketch: int,
) -> None:
    func = ordered_product(sizes, dtypes, order, bias)
    module = tile_kernel(func, hopper(), sketch, annotations={TILE_SPLITS: splits})
    notes = [
        note
        for kernel in module.functions.values()
        for note in ir.nodes_of(kernel.body, ir.AttrStmt)
        if note.attr_key == CLUSTER_BLOCKS
    ]
    assert [str(note.value) for note in notes] == [str(splits)]
    check(func, module, multiplied(order, bias), seed=splits)


@pytest.mark.parametrize("seed", range(6))
def test_shared_sums_are_the_same_in_every_order_of_turns(seed: int) -> None:
    func = ordered_product((64, 64, 640), F16)
    module = tile_kernel(func, hopper(), annotations={TILE_SPLITS: 4, TILE_STAGES: 2})
    first, _ = results(func, module, 0)
    again, _ = results(func, module, seed)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("sketch", range(4))
@pytest.mark.parametrize("order", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("sizes", "dtypes"), [((65, 67, 69), HALF), ((9, 130, 131), BF16)])
def test_sizes_without_any_alignment(
    sizes: tuple[int, int, int], dtypes: tuple[str, str, str], order: str, sketch: int
) -> None:
    func = ordered_product(sizes, dtypes, order, bias=True)
    module = tile_kernel(func, hopper(2), sketch)
    check(func, module, multiplied(order, bias=True), seed=sketch)


@pytest.mark.parametrize("result", ["float64", "int8"])
def test_results_of_types_that_bulk_copies_cannot_write(result: str) -> None:
    text = TILE_FORM.replace(
        'C: T.Buffer((64, 64), "float16")', f'C: T.Buffer((64, 64), "{result}")'
    )
    func = tile_func(text, [('T.Cast("float16", sums', f'T.Cast("{result}", sums')])
    arrays = random_arrays(func, are_whole=True)
    run(lower_for_gpu(func, str(hopper())), arrays)
    wanted = (arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)).astype(arrays[2].dtype)
    np.testing.assert_array_equal(arrays[2], wanted)


def test_a_result_across_the_rows() -> None:
    func = tile_func(TILE_FORM, [("C[vi, vj] = T", "C[vj, vi] = T")])
    arrays = random_arrays(func, are_whole=True)
    run(lower_for_gpu(func, str(hopper())), arrays)
    wanted = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    np.testing.assert_array_equal(arrays[2], wanted.T)


# --- on plain cores ------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", [0, -1])
@pytest.mark.parametrize(
    ("sizes", "order", "bias"),
    [
        ((64, 64, 64), "nn", False),
        ((70, 90, 50), "nn", True),  # nothing divides, and tiles are larger
        ((33, 130, 7), "nt", False),
        ((130, 65, 40), "tn", False),
    ],
    ids=str,
)
def test_products_on_threads(
    sizes: tuple[int, int, int], order: str, bias: bool, sketch: int
) -> None:
    func = ordered_product(sizes, ("float32", "float32", "float32"), order, bias)
    module = tile_kernel(func, Target("nvidia/nvidia-h200"), sketch, "ThreadTiling")
    check(func, module, multiplied(order, bias))


# --- convolutions --------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", range(2))
@pytest.mark.parametrize(
    ("shape", "filters", "kernel", "stride", "pad", "dilation"),
    [
        ((2, 9, 11, 64), 48, 3, 2, 1, 1),
        ((3, 7, 5, 64), 32, 3, 1, 1, 1),
        ((1, 12, 12, 64), 64, 3, 1, 2, 2),
        ((2, 8, 8, 128), 40, 1, 1, 0, 1),
    ],
)
def test_convolutions(
    shape: tuple[int, int, int, int],
    filters: int,
    kernel: int,
    stride: int,
    pad: int,
    dilation: int,
    sketch: int,
) -> None:
    func = te.create_prim_func(
        conv2d_nhwc(*shape, filters, kernel, stride, pad, dilation, in_dtype="float16")
    )
    module = tile_kernel(func, hopper(2), sketch)
    check(func, module, lambda x, w: convolved(x, w, stride, pad, dilation), seed=sketch)
