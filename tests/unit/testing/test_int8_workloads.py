"""The int8 workloads compute what they are said to, and their rows have the names of reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimFunc
from tilewright.testing import oracle
from tilewright.testing.int8_workloads import (
    CONV_SHAPES,
    FORMS,
    GEMM_SHAPES,
    INT8_ROWS,
    ConvShape,
    GemmShape,
    create_int8_workload,
    prepare_residual_block,
    residual_block_result,
)

rng = np.random.default_rng(14)


def arrays_of(func: PrimFunc) -> list[Any]:
    """Random arguments; the last one, the result, is zero."""
    made = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape, dtype = [int(str(extent)) for extent in buffer.shape], str(buffer.dtype)
        limits = np.iinfo(dtype) if not dtype.endswith("64") else np.iinfo("int8")
        low, high = max(int(limits.min), -(2**15)), min(int(limits.max), 2**15)
        made.append(np.array(rng.integers(low, high + 1, shape), dtype))
    made[-1][...] = 0
    return made


@pytest.mark.parametrize("form", ["u8s8", "s8s8", "u8u8"])
def test_products(form: str) -> None:
    func = create_int8_workload("int8_gemm", M=3, N=5, K=8, form=form)
    a, b, c = arrays_of(func)
    oracle.run(func, a, b, c)
    assert (a.dtype, b.dtype) == tuple(map(np.dtype, FORMS[form][:2]))
    np.testing.assert_array_equal(c, a.astype("int64") @ b.astype("int64"))


def test_weights_may_be_packed_ahead_where_that_is_said() -> None:
    shape = GemmShape(3, 5, 8)
    assert "layout_free_buffers" not in shape.create().attrs
    assert list(shape.create("s8s8", layout_free=True).attrs["layout_free_buffers"]) == [1]
    assert list(ConvShape(7, 4, 4, 1).create().attrs["layout_free_buffers"]) == [1]


def test_batches_of_products() -> None:
    func = create_int8_workload("int8_batch_matmul", B=2, M=3, N=5, K=8, form="s8s8")
    x, y, z = arrays_of(func)
    oracle.run(func, x, y, z)
    np.testing.assert_array_equal(z, x.astype("int64") @ y.astype("int64").swapaxes(1, 2))


def test_rows() -> None:
    assert [shape.row for shape in GEMM_SHAPES] == [
        "int8_gemm_512x512x512",
        "int8_gemm_1024x1024x1024",
        "int8_gemm_4096x1024x1024",
        "int8_gemm_32x1008x2048",
        "int8_gemm_32x2048x1008",
    ]
    assert [shape.row for shape in CONV_SHAPES] == [
        f"int8_conv_{size}x{size}x{channels}_{k}x{k}"
        for k in (3, 1)
        for size, channels in ((56, 64), (28, 128), (14, 256), (7, 512))
    ]
    assert len(INT8_ROWS) == len(GEMM_SHAPES) + len(CONV_SHAPES)
    conv = INT8_ROWS["int8_conv_56x56x64_3x3"]
    assert conv.operations == 2 * 56 * 56 * 64 * 9 * 64
    assert isinstance(conv, ConvShape)
    assert conv.output_size == 56


@pytest.mark.parametrize("data_dtype", ["int8", "uint8"])
def test_the_residual_block(data_dtype: str) -> None:
    func = create_int8_workload("Conv2dInt8", N=1, H=3, W=3, CI=8, CO=4, data_dtype=data_dtype)
    arrays = arrays_of(func)
    prepare_residual_block(arrays)
    expected = residual_block_result(arrays)
    oracle.run(func, *arrays)
    assert len(set(expected.flat)) > 10
    np.testing.assert_array_equal(arrays[-1], expected)


def test_the_residual_block_has_the_shapes_of_the_seeds() -> None:
    func = create_int8_workload("Conv2dInt8")
    shapes = [tuple(int(str(e)) for e in func.buffer_map[p].shape) for p in func.params]
    assert shapes[0] == (16, 56, 56, 64)
    assert shapes[1] == (256, 1, 1, 64)
    assert shapes[-1] == (16, 56, 56, 256)


def test_unknown_names() -> None:
    with pytest.raises(TensorExpressionError) as caught:
        create_int8_workload("int8_gem", M=1, N=1, K=1)
    assert str(caught.value) == "unknown workload 'int8_gem'; did you mean 'int8_gemm'?"
    with pytest.raises(TensorExpressionError) as caught:
        create_int8_workload("int8_gemm", M=1, N=1, K=1, form="u8s9")
    assert str(caught.value) == "unknown form 'u8s9'; did you mean 'u8s8'?"
