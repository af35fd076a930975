"""Operands that a kernel of their own brings into order: how it does that."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir
from tilewright.ir.annotation_keys import ALLOW_TF32
from tilewright.testing.gpu_lowering import lower_for_gpu, random_arrays
from tilewright.testing.simt import run
from tilewright.testing.simt.tensor_maps import rounded_to_tf32
from tilewright.testing.tile_programs import H200, product, sketches_of


def packing_kernel(module: ir.IRModule) -> str:
    return str(module["main_kernel"])


@pytest.mark.parametrize(
    ("sizes", "batch", "in_registers"),
    [((64, 64, 128), [], True), ((64, 64, 64), [2], True), ((64, 48, 64), [], False)],
    ids=str,
)
def test_float32_is_turned_in_registers(
    sizes: tuple[int, int, int], batch: list[int], in_registers: bool
) -> None:
    func = product(sizes, ("float32", "float32"), batch).with_attr(ALLOW_TF32, True)
    sketch = sketches_of(func, "WarpGroupTiling")[0]
    module = lower_for_gpu(sketch.mod["main"], str(H200))
    assert ("shared" not in packing_kernel(module)) == in_registers
    arrays = random_arrays(func)
    run(module, arrays)
    left, right = (rounded_to_tf32(each).astype(np.float64) for each in arrays[:2])
    np.testing.assert_allclose(arrays[2], left @ right, rtol=1e-4, atol=1e-4)


def test_bytes_are_turned_in_shared_memory() -> None:
    sketch = sketches_of(product((64, 256, 256), ("int8", "int32")), "WarpGroupTiling")[0]
    assert "shared" in packing_kernel(lower_for_gpu(sketch.mod["main"], str(H200)))
