"""Tensor maps as they are asked of the driver, which is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tilewright.codegen.cuda.tensor_maps import _KEPT, MapMaker
from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import CudaDriver, cuda_driver
from tilewright.testing.fake_gpu import FakeDriver, FakeStatus, installed

TILED = [2, 512, 256, 1024, 64, 128, 128]  # rank, sizes, strides, boxes, pattern
WINDOWS = [64, 10, 14, 2, -1, -2, 1, 0, 64, 128, 2, 3]


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    driver = FakeDriver()
    with installed(driver):
        yield driver


def asked(fake: FakeDriver) -> list[tuple[Any, ...]]:
    return [call for call in fake.calls if call[0].startswith("cuTensorMap")]


def driver_of(fake: FakeDriver) -> CudaDriver:
    return cuda_driver()


def test_tiles(fake: FakeDriver) -> None:
    made = MapMaker("tw_tensor_map", "float16", TILED).map_at(driver_of(fake), 4096)
    assert len(made) == 128
    ((name, dtype, rank, address, *lists, interleave, swizzle, promotion, fill),) = asked(fake)
    assert (name, rank, address) == ("cuTensorMapEncodeTiled", 2, 4096)
    assert dtype == "CU_TENSOR_MAP_DATA_TYPE_FLOAT16"
    assert lists == [[512, 256], [1024], [64, 128], [1, 1]]
    assert swizzle == "CU_TENSOR_MAP_SWIZZLE_128B"
    assert interleave == "CU_TENSOR_MAP_INTERLEAVE_NONE"
    assert fill == "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"  # that is: zeros
    assert promotion == "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"


def test_more_dimensions(fake: FakeDriver) -> None:
    numbers = [4, 512, 256, 3, 5, 1024, 262144, 786432, 64, 128, 1, 1, 0]
    MapMaker("tw_tensor_map", "float32", numbers).map_at(driver_of(fake), 4096)
    ((_, _, rank, _, *lists, _, swizzle, _, _),) = asked(fake)
    assert rank == 4
    assert lists == [[512, 256, 3, 5], [1024, 262144, 786432], [64, 128, 1, 1], [1, 1, 1, 1]]
    assert swizzle == "CU_TENSOR_MAP_SWIZZLE_NONE"


def test_windows(fake: FakeDriver) -> None:
    MapMaker("tw_window_map", "bfloat16", WINDOWS).map_at(driver_of(fake), 8192)
    ((name, dtype, rank, address, *rest),) = asked(fake)
    assert (name, rank, address) == ("cuTensorMapEncodeIm2col", 4, 8192)
    assert dtype == "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16"
    sizes, strides, lower, upper, channels, pixels, steps = rest[:7]
    assert sizes == [64, 10, 14, 2]
    assert strides == [64 * 2, 640 * 2, 8960 * 2]
    assert (lower, upper, channels, pixels) == ([-1, -2], [1, 0], 64, 128)
    assert steps == [1, 2, 3, 1]
    assert rest[8] == "CU_TENSOR_MAP_SWIZZLE_128B"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("int8", "UINT8"), ("float8_e4m3fn", "UINT8"), ("int32", "INT32"), ("float64", "FLOAT64")],
)
def test_types(fake: FakeDriver, dtype: str, name: str) -> None:
    MapMaker("tw_tensor_map", dtype, TILED).map_at(driver_of(fake), 4096)
    assert asked(fake)[0][1] == f"CU_TENSOR_MAP_DATA_TYPE_{name}"


def test_bytes_have_strides_of_their_own(fake: FakeDriver) -> None:
    MapMaker("tw_window_map", "int8", WINDOWS).map_at(driver_of(fake), 4096)
    assert asked(fake)[0][5] == [64, 640, 8960]


def test_maps_are_kept_by_address(fake: FakeDriver) -> None:
    maker = MapMaker("tw_tensor_map", "float16", TILED)
    first = maker.map_at(driver_of(fake), 4096)
    assert maker.map_at(driver_of(fake), 4096) is first
    maker.map_at(driver_of(fake), 8192)
    assert [call[3] for call in asked(fake)] == [4096, 8192]


def test_only_the_last_maps_are_kept(fake: FakeDriver) -> None:
    maker = MapMaker("tw_tensor_map", "float16", TILED)
    for number in range(_KEPT + 1):
        maker.map_at(driver_of(fake), 4096 * (number + 1))
    maker.map_at(driver_of(fake), 4096)
    assert len(asked(fake)) == _KEPT + 2
    maker.map_at(driver_of(fake), 4096 * (_KEPT + 1))
    assert len(asked(fake)) == _KEPT + 2


def test_a_map_that_the_driver_refuses(fake: FakeDriver) -> None:
    fake.failures["cuTensorMapEncodeTiled"] = FakeStatus.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(DeviceError) as error:
        MapMaker("tw_tensor_map", "float16", TILED).map_at(driver_of(fake), 4100)
    assert str(error.value) == (
        "the driver made no tensor map of float16 at 0x1004: CUDA_ERROR_INVALID_VALUE (invalid "
        "value); arrays that kernels copy in tiles must begin at multiples of 16 bytes"
    )


def test_the_bytes_of_a_map(fake: FakeDriver) -> None:
    made = MapMaker("tw_tensor_map", "float16", TILED).map_at(driver_of(fake), 4096)
    assert made == bytes(fake.maps[-1])
