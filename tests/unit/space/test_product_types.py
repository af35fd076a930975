"""Products of all types get a schedule for a GPU without a search, on the units that suit them."""

from __future__ import annotations

import pytest

from tilewright.testing.gpu_lowering import lower_for_gpu
from tilewright.testing.product_types import PRODUCT_TYPES, THREADS, WGMMA
from tilewright.testing.tile_programs import H200
from tilewright.tune import default_schedule


@pytest.mark.parametrize("name", PRODUCT_TYPES)
def test_what_runs_a_product(name: str) -> None:
    types = PRODUCT_TYPES[name]
    scheduled = default_schedule(types.program((96, 64, 80), "nn"), H200)
    text = str(lower_for_gpu(scheduled.mod["main"], str(H200)))
    used = [each for each in (WGMMA, THREADS) if each in text]
    assert used == [types.runs_on] * bool(types.runs_on)
