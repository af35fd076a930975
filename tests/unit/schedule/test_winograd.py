"""`winograd`: a convolution in tiles, with the same results."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright import te
from tilewright.driver import build
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, as_module
from tilewright.ir.annotation_keys import WINOGRAD_TILE
from tilewright.schedule import Schedule
from tilewright.testing import te_workload
from tilewright.testing.oracle import run
from tilewright.testing.schedule_checks import verify_trace_roundtrip

BLOCK = "conv2d_nhwc"


def convolution(size: int = 8, stride: int = 1, window: int = 3, dilation: int = 1) -> PrimFunc:
    shape = (1, size, size, 4, 6, window, stride, window // 2, dilation)
    return te.create_prim_func(list(te_workload.conv2d_nhwc(*shape)))


def arguments(size: int = 8) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    shapes = [(1, size, size, 4), (3, 3, 4, 6), (1, size, size, 6)]
    return [random.random(shape, dtype=np.float32) - np.float32(0.5) for shape in shapes]


@pytest.mark.parametrize("tile", [2, 4])
def test_results_are_the_same(tile: int) -> None:
    func = convolution()
    sch = Schedule(func, debug_mask="all")
    block = sch.get_block(BLOCK)
    sch.winograd(block, tile)
    products = sch.get_sref(block)
    assert products.name == "conv2d_nhwc_winograd_products"
    assert products.block.annotations[WINOGRAD_TILE] == tile
    verify_trace_roundtrip(sch, func)
    *inputs, expected = arguments()
    run(func, *inputs, expected)
    for execute in (lambda *args: run(sch.mod["main"], *args), build(sch.mod)["main"]):
        found = np.full_like(expected, np.nan)
        execute(*inputs, found)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_padding_stays_a_producer() -> None:
    sch = Schedule(convolution())
    block = sch.get_block(BLOCK)
    sch.winograd(block, 2)
    names = [sch.get_sref(each).name for each in sch.get_producers(block)]
    assert sorted(names) == ["conv2d_nhwc_winograd_data", "conv2d_nhwc_winograd_weights"]
    (rows,) = sch.get_producers(sch.get_block("conv2d_nhwc_winograd_data"))
    assert [sch.get_sref(each).name for each in sch.get_producers(rows)] == ["PadInput"]


@pytest.mark.parametrize(
    "func",
    [
        convolution(stride=2),
        convolution(window=5),
        convolution(dilation=2),
        te.create_prim_func(list(te_workload.conv2d_nhwc(1, 8, 8, 4, 6, 3, 1, 1, 1, 2))),
        te.create_prim_func(
            list(te_workload.conv2d_nhwc(1, 8, 8, 4, 6, 3, 1, 1, in_dtype="float16"))
        ),
    ],
)
def test_other_convolutions_are_refused(func: PrimFunc) -> None:
    message = (
        "block 'conv2d_nhwc' is not a convolution of NHWC data with 3 x 3 filters that move by "
        "one; give a sum of data[n, h + rh, w + rw, rc] * filters[rh, rw, rc, co] in float32"
    )
    with pytest.raises(ScheduleError, match=re.escape(message)):
        Schedule(func).winograd(BLOCK, 2)


@pytest.mark.parametrize(("size", "tile"), [(7, 2), (6, 4), (8, 3)])
def test_tiles_must_be_whole(size: int, tile: int) -> None:
    message = (
        f"{size} x {size} results of block 'conv2d_nhwc' are no whole tiles of {tile} x {tile}; "
        "take tiles of 2, 4 or 6 that divide both"
    )
    with pytest.raises(ScheduleError, match=message):
        Schedule(convolution(size)).winograd(BLOCK, tile)


def test_the_convolution_must_have_its_loops_for_itself() -> None:
    sch = Schedule(convolution())
    sch.compute_at(sch.get_block("PadInput"), sch.get_loops(BLOCK)[0])
    message = (
        "loops around block 'conv2d_nhwc' hold more than it, or are below another block; "
        "transform a convolution before its loops are"
    )
    with pytest.raises(ScheduleError, match=message):
        sch.winograd(BLOCK, 2)


def test_the_module_keeps_its_other_functions() -> None:
    sch = Schedule(as_module(convolution()))
    sch.winograd(BLOCK, 2)
    assert list(sch.mod.functions) == ["main"]
