"""Buffers in shared memory use bytes again."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.testing.gpu_lowering import lower_for_gpu, result_on_gpu
from tilewright.testing.gpu_programs import at_the_same_time, one_after_another


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
@pytest.mark.parametrize(("first", "second"), [(64, 64), (1000, 300), (70, 2000)])
def test_one_after_another(scope: str, first: int, second: int) -> None:
    func = one_after_another(first, second, scope)
    lowered = lower_for_gpu(func)
    assert f'T.allocate([{4 * max(first, second)}], "uint8", "{scope}")' in str(lowered)
    a, b, c, d = result_on_gpu(func, lowered)
    np.testing.assert_array_equal(a, c)
    np.testing.assert_array_equal(b, d)


def test_a_few_bytes_are_not_worth_a_barrier() -> None:
    func = one_after_another(32, 8, "shared")
    lowered = lower_for_gpu(func)
    assert 'T.allocate([32], "float32", "shared")' in str(lowered)
    assert 'T.allocate([8], "float32", "shared")' in str(lowered)
    a, b, c, d = result_on_gpu(func, lowered)
    np.testing.assert_array_equal(a, c)
    np.testing.assert_array_equal(b, d)


def test_static_buffers_that_live_together_stay_apart() -> None:
    text = str(lower_for_gpu(at_the_same_time(64, 32, "shared")))
    assert 'T.allocate([64], "float32", "shared")' in text
    assert 'T.allocate([32], "float32", "shared")' in text


def test_dynamic_buffers_are_parts_of_one_array() -> None:
    func = at_the_same_time(64, 32, "shared.dyn")
    lowered = lower_for_gpu(func)
    assert 'T.allocate([384], "uint8", "shared.dyn")' in str(lowered)
    params = lowered["main_kernel"].attrs["tir.kernel_launch_params"]
    assert list(params) == ["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"]
    assert 'T.call_packed("main_kernel", A, B, D, 1, 1, 384)' in str(lowered)
    a, b, d = result_on_gpu(func, lowered)
    np.testing.assert_allclose(d, b + a[0])


def test_more_than_a_kernel_may_declare_becomes_dynamic() -> None:
    lowered = lower_for_gpu(at_the_same_time(8192, 8192, "shared"))
    assert 'T.allocate([65536], "uint8", "shared.dyn")' in str(lowered)
