"""Images of few channels that are staged in shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir, te
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import SHARED_BYTES
from tilewright.lowering.gpu.tile_kernels.staging import StagedImage, ring_bytes
from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, read_tile_form, tile_loops
from tilewright.testing.simt import RaceError
from tilewright.testing.te_workload import conv2d_nhwc
from tilewright.testing.tile_kernel_runs import (
    convolved,
    hopper,
    results,
    tile_kernel,
    with_calls,
)
from tilewright.testing.tile_programs import convolution, sketches_of

HALF, BYTES = ("float16", "float32"), ("int8", "int32")
Shape = tuple[int, int, int, int]


def form_of(func: ir.PrimFunc, sketch: int = 0) -> TileForm:
    (loop,) = tile_loops(sketches_of(func, "WarpGroupTiling")[sketch].mod["main"].body)
    return read_tile_form(loop)


@pytest.mark.parametrize("sketch", [0, 3, 5])
@pytest.mark.parametrize(
    ("shape", "filters", "taps", "stride", "pad", "by"),
    [
        ((2, 16, 16, 3), 16, 3, 2, 1, 1),  # tiles of several lines, across images
        ((1, 12, 40, 3), 64, 7, 2, 3, 1),  # three steps
        ((2, 9, 8, 5), 16, 3, 1, 2, 2),
        ((3, 4, 104, 2), 16, 3, 1, 1, 1),  # lines of one segment
        ((1, 3, 320, 2), 8, 3, 1, 1, 1),  # and of three
    ],
)
def test_convolutions(
    shape: Shape, filters: int, taps: int, stride: int, pad: int, by: int, sketch: int
) -> None:
    tensors = conv2d_nhwc(*shape, filters, taps, stride, pad, by, in_dtype="float16")
    func = te.create_prim_func(tensors)
    module = tile_kernel(func, hopper(2), sketch)
    assert '"tw_take_' in str(module)
    found, (image, weight) = results(func, module, seed=sketch)
    wanted = convolved(image, weight, stride, pad, by)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize("sketch", [0, 3])
def test_convolutions_of_bytes(sketch: int) -> None:
    func = convolution((2, 9, 16, 3), (5, 5, 32), BYTES, stride=2, padding=2)
    module = tile_kernel(func, hopper(2), sketch)
    assert '"tw_take_1"' in str(module)
    found, (image, weight) = results(func, module, seed=sketch)
    np.testing.assert_array_equal(found, convolved(image, weight, 2, 2))


def test_sizes_of_boxes() -> None:
    func = convolution((16, 224, 224, 3), (7, 7, 64), HALF, stride=2, padding=3)
    image = StagedImage.of(form_of(func, 2).left)
    assert (image.segments, image.pixels) == (4, 28)  # of 112 results in a line
    assert (image.lines, image.width) == (7, 192)  # 7 + 27 * 6 + 21 elements, and what aligns them
    assert image.box_bytes == 7 * 192 * 2
    assert image.bytes == image.boxes * 2688
    assert image.boxes == 6  # 128 rows: parts of two lines
    numbers = [
        int(arg.value) for arg in image.map.creation().args[4:] if isinstance(arg, ir.IntImm)
    ]
    assert numbers == [3, 672, 224, 16, 1344, 301056, 192, 7, 1, 0]


@pytest.mark.parametrize(
    ("channels", "taps", "stride", "pad"), [(3, 7, 2, 3), (1, 5, 1, 2), (5, 3, 1, 1), (2, 3, 3, 0)]
)
def test_boxes_begin_at_multiples_of_16_bytes(
    channels: int, taps: int, stride: int, pad: int
) -> None:
    func = convolution((2, 24, 320, channels), (taps, taps, 64), HALF, stride=stride, padding=pad)
    image = StagedImage.of(form_of(func).left)
    for row in range(0, 2048, 64):
        for number in range(image.boxes):
            x, _, _ = image.coordinates(ir.const(row), number)
            assert ir.constant_value(Analyzer().simplify(ir.floormod(x, 8))) == 0


def test_where_images_lie() -> None:
    func = convolution((16, 224, 224, 3), (7, 7, 64), HALF, stride=2, padding=3)
    layout = GroupLayout.of(form_of(func, 2), SHARED_BYTES)
    assert layout.images is not None
    assert layout.images.offset == layout.image_offset == layout.output_offset + layout.output_bytes
    assert layout.full_offset - layout.image_offset == ring_bytes(layout.image)
    assert layout.threads % 128 == 32  # one warp stages
    assert layout.bytes <= SHARED_BYTES


@pytest.mark.parametrize(
    ("image", "kernel", "reason"),
    [
        ((1, 9, 9, 3), (3, 3, 64), "lines of X do not begin at multiples of 16 bytes"),
        ((1, 8, 96, 3), (3, 90, 64), "windows of X are larger than one box"),
    ],
)
def test_images_that_are_not_staged(
    image: Shape, kernel: tuple[int, int, int], reason: str
) -> None:
    form = form_of(convolution(image, kernel, HALF))
    with pytest.raises(LowerError, match=reason):
        StagedImage.of(form.left)
    assert GroupLayout.of(form, SHARED_BYTES).images is None


def test_wide_loads_need_no_staging() -> None:
    form = form_of(convolution((1, 16, 16, 8), (3, 3, 64), HALF))
    assert StagedImage.of(form.left).boxes > 0
    assert GroupLayout.of(form, SHARED_BYTES).images is None


# --- order ---------------------------------------------------------------------------------------

FUNC = te.create_prim_func(conv2d_nhwc(1, 20, 24, 3, 16, 5, 1, 2, 1, in_dtype="float16"))


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_turns_gives_the_same(seed: int) -> None:
    found, (image, weight) = results(FUNC, tile_kernel(FUNC, hopper(1), 3), seed)
    np.testing.assert_allclose(found, convolved(image, weight, 1, 2, 1), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("tw_barrier_wait", 0, "have not landed"),  # gathering before the image is there
        ("tw_fence_async_shared", 0, "written without a fence"),
    ],
)
def test_faults_are_noticed(name: str, number: int, message: str) -> None:
    module = tile_kernel(FUNC, hopper(1), 3)
    faulty = with_calls(module, name, lambda call, count: None if count == number else call)
    with pytest.raises(RaceError, match=message):
        results(FUNC, faulty)
