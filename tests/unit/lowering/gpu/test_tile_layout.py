"""Sizes of tile kernels, and the tensor maps that their copies go by."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import ir, te, topi
from tilewright.driver import lower
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import TILE_CONSUMERS
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout, can_be_written
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import (
    SHARED_BYTES,
    LowerTileKernels,
    processors_of,
)
from tilewright.lowering.gpu.tile_kernels.tensor_maps import OperandMap, TensorMap, WindowMap
from tilewright.lowering.gpu.tile_kernels.tile_form import read_tile_form, tile_loops
from tilewright.lowering.host_abi import SIGNATURE_ATTR, signature_of
from tilewright.space.gpu.tile_rule import Way
from tilewright.space.gpu.warp_group_tiling import SHAPES, WarpGroupTiling
from tilewright.target import Target
from tilewright.testing.tile_programs import (
    H200,
    TILE_FORM,
    convolution,
    product,
    reason_of,
    sketches_of,
    tile_func,
)
from tilewright.tune import default_schedule

HALF, BYTES = ("float16", "float32"), ("int8", "int32")
SIZES = {"rows": 64, "columns": 64, "depth": 64, "consumers": 1, "stages": 2}


def layout_of(func: ir.PrimFunc) -> GroupLayout:
    (loop,) = tile_loops(func.body)
    return GroupLayout.of(read_tile_form(loop), SHARED_BYTES)


def sized(result: str = "float16", **sizes: int) -> ir.PrimFunc:
    """The form with tiles of other sizes."""
    n = SIZES | sizes
    rows, columns, depth = n["rows"], n["columns"], n["depth"]
    text = TILE_FORM
    for old, new in (
        ('A: T.Buffer((64, 128)', f"A: T.Buffer(({rows}, {2 * depth})"),
        ('B: T.Buffer((128, 64)', f"B: T.Buffer(({2 * depth}, {columns})"),
        ('C: T.Buffer((64, 64), "float16")', f'C: T.Buffer(({rows}, {columns}), "{result}")'),
        ('sums = T.alloc_buffer((64, 64)', f"sums = T.alloc_buffer(({rows}, {columns})"),
        ('left = T.alloc_buffer((64, 128)', f"left = T.alloc_buffer(({rows}, {2 * depth})"),
        ('right = T.alloc_buffer((128, 64)', f"right = T.alloc_buffer(({2 * depth}, {columns})"),
        ("T.grid(64, 64):\n                with T.block(\"left\")",
         f"T.grid({rows}, {depth}):\n                with T.block(\"left\")"),
        ("T.grid(64, 64):\n                with T.block(\"right\")",
         f"T.grid({depth}, {columns}):\n                with T.block(\"right\")"),
        ("T.grid(64, 64):\n            with T.block(\"C\")",
         f"T.grid({rows}, {columns}):\n            with T.block(\"C\")"),
        ("T.grid(64, 64, 64)", f"T.grid({rows}, {columns}, {depth})"),
        ("vi = T.axis.spatial(64, i)", f"vi = T.axis.spatial({rows}, i)"),
        ("vj = T.axis.spatial(64, j)", f"vj = T.axis.spatial({columns}, j)"),
        ("axis.spatial(128, k * 64", f"axis.spatial({2 * depth}, k * {depth}"),
        ("axis.reduce(128, k * 64", f"axis.reduce({2 * depth}, k * {depth}"),
        ('T.Cast("float16", sums', f'T.Cast("{result}", sums'),
        ('"tilewright.tile_stages": 2', f'"tilewright.tile_stages": {n["stages"]}, '
         f'"tilewright.tile_consumers": {n["consumers"]}'),
    ):  # fmt: skip
        assert old in text, old
        text = text.replace(old, new)
    return tile_func(text)


def split(blocks: int) -> ir.PrimFunc:
    """The form with blocks that share its tile."""
    note = '"tilewright.tile_stages": 2'
    return tile_func(TILE_FORM, [(note, f'{note}, "tilewright.tile_splits": {blocks}')])


def with_gatherers(groups: int, depth: int = 128, columns: int = 64) -> ir.PrimFunc:
    """The form with groups that gather, and a left operand of that depth."""
    text = str(sized(columns=columns))
    consumers = '"tilewright.tile_consumers": 1'
    changes = [(consumers, f'{consumers}, "tilewright.tile_gatherers": {groups}')]
    if depth != 128:
        changes.append(("A: T.Buffer((64, 128)", f"A: T.Buffer((64, {depth})"))
    return tile_func(text, changes)


# --- sizes ---------------------------------------------------------------------------------------


def test_threads_and_registers() -> None:
    layout = layout_of(sized(rows=256, columns=128, consumers=2))
    assert (layout.threads, layout.registers) == (384, (40, 232))
    assert (layout.rows, layout.matrices, layout.sums_of_matrix, layout.sums) == (128, 2, 64, 128)
    assert layout.depth_steps == 4
    assert layout.instruction == "tw_wgmma_m64n128k16_f32_f16_f16_t01"


def test_where_things_lie_in_shared_memory() -> None:
    layout = layout_of(sized(rows=128, columns=64, stages=3))
    assert (layout.left.bytes, layout.stage_bytes) == (16384, 24576)
    assert layout.output_offset == 3 * 24576
    assert layout.full_offset == layout.output_offset + 128 * 64 * 2
    assert layout.empty_offset == layout.full_offset + 3 * 8
    assert layout.bytes == 1024 + layout.empty_offset + 3 * 8


@pytest.mark.parametrize("result", ["float16", "float32"])
@pytest.mark.parametrize(
    ("rows", "consumers", "columns"),
    [
        (shape.rows, shape.annotations[TILE_CONSUMERS], columns)
        for shape in SHAPES
        for columns in shape.columns
    ],
)
def test_all_tiles_fit(rows: int, consumers: int, columns: int, result: str) -> None:
    layout = layout_of(sized(result, rows=rows, columns=columns, consumers=consumers, stages=0))
    assert 2 <= layout.stages <= 8
    assert layout.bytes <= SHARED_BYTES
    assert columns % layout.part == 0
    assert layout.part % layout.output_panel == 0
    assert layout.output_panel * layout.output_dtype.itemsize in (64, 128)
    assert layout.stages == 8 or layout.bytes + layout.stage_bytes + 16 > SHARED_BYTES - (
        layout.output_bytes
    )


def test_the_output_takes_what_stages_leave() -> None:
    many = layout_of(sized("float32", rows=128, columns=256, consumers=2, stages=4))
    assert many.part < 256
    assert many.bytes <= SHARED_BYTES
    assert layout_of(sized("float32", rows=128, columns=256, consumers=2, stages=2)).part == 256


def test_a_right_operand_that_is_the_same_for_all_tiles_stays() -> None:
    def layout(rows: int, columns: int, depth: int, processors: int) -> GroupLayout:
        (sketch, *_) = sketches_of(product((rows, columns, depth), HALF), "WarpGroupTiling")
        (loop,) = tile_loops(sketch.mod["main"].body)
        return GroupLayout.of(read_tile_form(loop), SHARED_BYTES, processors)

    stays = layout(1024, 32, 256, 8)
    assert stays.is_resident
    assert stays.stage_bytes == stays.left.bytes == 64 * 128
    assert stays.resident_offset == stays.stages * stays.stage_bytes
    assert stays.output_offset - stays.resident_offset == stays.resident_bytes == 4 * 32 * 128
    assert stays.resident_barrier == stays.empty_offset + 8 * stays.stages
    assert stays.bytes == 1024 + stays.resident_barrier + 8
    assert not layout(1024, 32, 256, 16).is_resident  # a block has one tile
    assert not layout(1024, 2048, 256, 8).is_resident  # tiles differ in their columns
    assert not layout(1024, 32, 8192, 8).is_resident  # it does not fit


REFUSED: dict[str, tuple[Callable[[], ir.PrimFunc], str]] = {
    "four groups": (
        lambda: sized(rows=256, consumers=4), "it has 4 groups that multiply, expected 1 to 3"),
    "rows": (lambda: sized(rows=64, consumers=2), "64 rows are not 64 for each of 2 groups"),
    "depth": (lambda: sized(depth=32), "a tile has 32 of float16 along the sum, not 128 bytes"),
    "few columns": (lambda: sized(columns=8), "no tile of B is contiguous"),
    "many columns": (
        lambda: sized(columns=320), "it has 320 columns, expected 16 to 256 in steps of 16"),
    "sums": (
        lambda: sized(rows=128, columns=192),
        "each thread would have 192 sums in registers, at most 160 fit"),
    "shared memory": (
        lambda: sized(stages=32), "it needs 529920 bytes of shared memory, 232448 exist"),
    "three blocks": (lambda: split(3), "3 blocks share a tile, expected 1, 2, 4 or 8"),
    "sixteen blocks": (lambda: split(16), "16 blocks share a tile, expected 1, 2, 4 or 8"),
    "more blocks than steps": (lambda: split(4), "4 blocks share the 2 steps of a tile"),
    "nothing to gather": (
        lambda: with_gatherers(1),
        "bulk copies can fetch all of it, there is nothing to gather"),
    "many threads": (
        lambda: with_gatherers(8, depth=123), "it has 1152 threads, at most 1024 exist"),
    "sums of many threads": (
        lambda: with_gatherers(6, depth=123, columns=128),
        "each thread would have 64 sums in registers, at most 41 fit"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(LowerError) as error:
        LowerTileKernels()(ir.as_module(make()))
    assert str(error.value).rpartition("must be a tile kernel, but ")[2] == reason


def test_a_left_operand_across_the_sum() -> None:
    turned = [("= A[vi, vk]", "= A[vk, vi]")]
    func = tile_func(str(sized(rows=128)), [*turned, ("A: T.Buffer((128, 128)",) * 2])
    layout = layout_of(func)
    assert not layout.left.is_depth_first
    assert layout.instruction == "tw_wgmma_m64n64k16_f32_f16_f16_t11"
    func = tile_func(
        str(sized(rows=96)), [*turned, ("A: T.Buffer((96, 128)", "A: T.Buffer((128, 96)")]
    )
    with pytest.raises(
        LowerError, match="tiles of a left operand with contiguous columns have 64 of them a row"
    ):
        layout_of(func)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([('B: T.Buffer((128, 64), "float16")', 'B: T.Buffer((128, 64), "bfloat16")'),
          ('right = T.alloc_buffer((128, 64), "f', 'right = T.alloc_buffer((128, 64), "bf')],
         "float16 and bfloat16 with sums of float32"),
        ([('"float32"', '"float64"'), ("T.float32(0)", "T.float64(0)")],
         "float16 and float16 with sums of float64"),
        ([('"float32"', '"float16"'), ("T.float32(0)", "T.float16(0)")],
         "float16 and float16 with sums of float16"),
    ],
)  # fmt: skip
def test_types_without_an_instruction(changes: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(LowerError, match=f"there is no instruction for {reason}"):
        layout_of(tile_func(TILE_FORM, changes))


def test_columns_that_are_no_parts_of_results() -> None:
    turned = [("B[vk, vj]", "B[vj, vk]"), ("B: T.Buffer((128, 48)", "B: T.Buffer((48, 128)")]
    assert layout_of(tile_func(str(sized("float32", columns=48)), turned)).is_bulk
    assert not layout_of(tile_func(str(sized(columns=48)), turned)).is_bulk


@pytest.mark.parametrize("result", ["int8", "float64"])
def test_results_that_threads_write(result: str) -> None:
    assert not layout_of(sized(result)).is_bulk


def test_sums_take_the_place_of_tiles() -> None:
    layout = layout_of(split(2))
    assert (layout.is_bulk, layout.output_map, layout.output_offset) == (False, None, 0)
    assert layout.pitch == 72 * 4  # rows begin in other banks
    assert layout.full_offset == max(64 * 72 * 4, 2 * layout.stage_bytes)


def test_types_of_results() -> None:
    written = [t for t in ("int8", "float16", "bfloat16", "int16", "float32", "int32", "float64")
               if can_be_written(ir.DType(t))]  # fmt: skip
    assert written == ["float16", "bfloat16", "float32", "int32"]


def test_how_many_blocks_run_at_a_time() -> None:
    assert processors_of(None) == processors_of(H200) == 132
    assert processors_of(Target("nvidia/nvidia-a100")) == 108


# --- tensor maps ---------------------------------------------------------------------------------


def maps_of(func: ir.PrimFunc) -> tuple[OperandMap, OperandMap]:
    layout = layout_of(sketches_of(func, "WarpGroupTiling")[0].mod["main"])
    return layout.left, layout.right


def numbers(made: TensorMap | WindowMap | None) -> list[int]:
    """What follows name, type, pointer and offset in the call that makes a map."""
    assert made is not None
    return [int(arg.value) for arg in made.creation().args[4:] if isinstance(arg, ir.IntImm)]


def test_operands_along_the_sum_and_across() -> None:
    left, right = maps_of(product((256, 32, 512), HALF))
    assert left.is_depth_first
    assert not right.is_depth_first
    # rank, sizes, strides in bytes, boxes, pattern
    assert numbers(left.map) == [2, 512, 256, 1024, 64, 64, 128]
    assert numbers(right.map) == [2, 32, 512, 64, 32, 64, 64]


def test_a_right_operand_that_is_turned() -> None:
    _, right = maps_of(product((256, 32, 512), HALF, is_turned=True))
    assert right.is_depth_first
    assert numbers(right.map) == [2, 512, 32, 1024, 64, 32, 128]


def test_batches_are_dimensions() -> None:
    left, right = maps_of(product((256, 32, 512), HALF, [3, 5]))
    assert numbers(left.map) == [4, 512, 256, 3, 5, 1024, 5 * 262144, 262144, 64, 64, 1, 1, 128]
    assert len(right.map.dimensions) == 4  # type: ignore[union-attr]


def test_operands_smaller_than_a_tile() -> None:
    left, right = maps_of(product((10, 16, 24), HALF))
    assert numbers(left.map) == [2, 24, 10, 48, 64, 64, 128]
    assert numbers(right.map) == [2, 16, 24, 32, 32, 64, 64]


def test_bytes() -> None:
    left, right = maps_of(product((128, 32, 256), BYTES, is_turned=True))
    assert numbers(left.map) == [2, 256, 128, 256, 128, 64, 128]
    assert right.map is not None
    assert str(right.map.creation().args[1]) == '"int8"'


@pytest.mark.parametrize(
    ("image", "kernel", "options"),
    [
        ((2, 14, 10, 64), (3, 3, 32), {"padding": 1}),
        ((1, 14, 10, 128), (3, 3, 32), {"stride": 2, "padding": 1}),
        ((1, 14, 14, 64), (3, 3, 32), {"dilation": 2, "padding": 2}),
        ((1, 14, 14, 64), (5, 1, 32), {}),
        ((1, 14, 14, 64), (1, 1, 32), {"stride": 2}),
        ((1, 6, 6, 64), (7, 7, 32), {"padding": 3, "stride": 1}),
    ],
)
def test_windows(
    image: tuple[int, int, int, int], kernel: tuple[int, int, int], options: dict[str, int]
) -> None:
    left, right = maps_of(convolution(image, kernel, HALF, **options))
    stride, dilation = options.get("stride", 1), options.get("dilation", 1)
    pad = options.get("padding", 0)
    n, height, width, channels = image
    if isinstance(left.map, TensorMap):  # a kernel of 1 x 1 reads pixels at equal distances
        assert kernel[:2] == (1, 1)
        return
    assert left.map is not None
    down, across = left.map.windows.height, left.map.windows.width
    assert (down.taps, across.taps, down.stride, across.stride) == (*kernel[:2], stride, stride)
    assert (down.dilation, across.dilation) in ((dilation, dilation), (dilation, 1))
    assert (down.pad, across.pad) == (pad, pad)
    upper = [pad - dilation * (taps - 1) for taps in (kernel[1], kernel[0])]
    found = numbers(left.map)
    assert found[:6] == [channels, width, height, n, -pad, -pad]
    if stride == 1:
        assert found[6:8] == upper
    assert found[8:] == [64, 64, stride, stride]
    # The kernel is a matrix of taps and channels.
    assert numbers(right.map)[:3] == [2, 32, kernel[0] * kernel[1] * channels]


def test_a_convolution_of_single_pixels_is_a_product() -> None:
    left, _ = maps_of(convolution((1, 14, 14, 64), (1, 1, 32), HALF))
    assert isinstance(left.map, TensorMap)


@pytest.mark.parametrize(
    ("image", "kernel", "options", "reason"),
    [
        ((1, 20, 20, 64), (3, 3, 32), {"stride": 9}, "windows of X move by 9, expected 1 to 8"),
        ((1, 8, 8, 64), (3, 3, 32), {"padding": 130},
         "windows of X reach too far: their corners are 130 outside, they are 3 wide; 128 and 256 "
         "at most"),
        ((1, 8, 8, 96), (3, 3, 32), {}, "96 channels of X are not a multiple of the 64 of a tile"),
    ],
)  # fmt: skip
def test_windows_that_bulk_copies_cannot_fetch(
    image: tuple[int, int, int, int],
    kernel: tuple[int, int, int],
    options: dict[str, int],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    func = convolution(image, kernel, HALF, **options)
    left, right = maps_of(func)
    assert left.map is None  # threads gather it
    assert right.map is not None
    monkeypatch.setattr(WarpGroupTiling, "ways", (Way(SHAPES, packs_matrices=True),))
    assert reason_of(sketches_of(func, "WarpGroupTiling")) == reason


WINDOW = """T.if_then_else(
                        vi % 8 + vk // 64 < 8,
                        A[0, vi // 8, vi % 8 + vk // 64, vk % 64],
                        T.float16(0),
                    )"""
IMAGE = ("A: T.Buffer((64, 128)", "A: T.Buffer((1, 8, 8, 64)")
COPY = "left[vi, vk] = "


def gathered(value: str, *changes: tuple[str, str]) -> ir.PrimFunc:
    """The form with a left operand that is gathered from an image."""
    return tile_func(TILE_FORM, [(f"{COPY}A[vi, vk]", COPY + value), *(changes or [IMAGE])])


def test_windows_of_a_form() -> None:
    left = layout_of(gathered(WINDOW)).left.map
    assert isinstance(left, WindowMap)
    assert (left.windows.height.outputs, left.windows.height.taps) == (8, 1)
    assert (left.windows.width.outputs, left.windows.width.taps) == (8, 2)
    assert (left.channels, left.pixels) == (64, 64)


THREE = WINDOW.replace("A[0, ", "A[")
SHIFTED = WINDOW.replace("8 + vk // 64", "8 + vk // 64 - 1")
GATHERED = {
    "three axes": (
        gathered(THREE, (IMAGE[0], "A: T.Buffer((8, 8, 64)")),
        "`A[vi // 8, vi % 8 + vk // 64, vk % 64]` is neither a plain tile nor the windows of a "
        "convolution",
    ),
    "three images": (
        gathered(WINDOW, (IMAGE[0], "A: T.Buffer((3, 8, 8, 64)")),
        "`A[0, vi // 8, vi % 8 + vk // 64, vk % 64]` is not the windows of a convolution",
    ),
    "an image for each tile": (
        gathered(
            WINDOW.replace("A[0", "A[vt"),
            IMAGE,
            (f"{COPY}T.if", f"vt = T.axis.spatial(1, tile)\n                    {COPY}T.if"),
        ),
        "`A[vt, vi // 8, vi % 8 + vk // 64, vk % 64]` depends on more than the tile",
    ),
    "mixed columns": (
        gathered(WINDOW.replace("vi % 8 +", "vi * 3 % 8 +")),
        "`vi * 3 % 8 + vk // 64` of A is not that of a window: `vi % 8 * 3 + vk // 64 % 2`",
    ),
    "half a guard": (
        gathered(SHIFTED),
        "`A[0, vi // 8, vi % 8 + vk // 64 - 1, vk % 64]` is read outside of A",
    ),
    "more than a guard": (
        gathered(WINDOW.replace("64 < 8", "64 < 8 and vi < 60")),
        "`vi % 8 + vk // 64 < 8 and vi < 60` is more than the bounds of A",
    ),
    "backwards": (
        gathered(WINDOW.replace("vi // 8", "7 - vi // 8")),
        "windows of A move by -1, expected 1 to 8",
    ),
}


@pytest.mark.parametrize("name", GATHERED)
def test_gathered_operands_that_are_refused(name: str) -> None:
    func, reason = GATHERED[name]
    with pytest.raises(LowerError) as error:
        layout_of(func)
    assert str(error.value).rpartition("must be a tile kernel, but ")[2] == reason


def test_weights_of_another_shape() -> None:
    """Weights that a reshape makes a matrix are read where they are."""
    x = te.placeholder((64, 256), "float16", name="X")
    w = te.placeholder((16, 16, 64), "float16", name="W")
    matrix = topi.reshape(w, (256, 64))
    k = te.reduce_axis((0, 256), name="k")
    y = te.compute(
        (64, 64),
        lambda i, j: te.sum(x[i, k].astype("float32") * matrix[k, j].astype("float32"), axis=k),
        name="Y",
    )
    _, right = maps_of(te.create_prim_func([x, w, y]))
    assert right.map is not None
    assert right.map.buffer.name == "W"
    assert numbers(right.map)[:4] == [2, 64, 256, 128]


@pytest.mark.parametrize(
    "func",
    [
        product((128, 64, 128), HALF),
        product((77, 33, 51), HALF),
        convolution((1, 8, 8, 64), (3, 3, 64), HALF, padding=1),
    ],
    ids=["bulk copies", "gathered", "windows"],
)
def test_operands_are_read_and_never_written(func: ir.PrimFunc) -> None:
    """Tensor maps are pointers, but copies go through them one way only."""
    lowered = lower(default_schedule(func, H200).mod, H200)
    (signature,) = (
        signature_of(each) for each in lowered.functions.values() if SIGNATURE_ATTR in each.attrs
    )
    assert [spec.access for spec in signature[:2]] == ["r", "r"]
    assert "w" in signature[2].access
