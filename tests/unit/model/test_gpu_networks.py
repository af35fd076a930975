"""All networks of the model zoo compile for a GPU that is not here: one kernel for each group."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.model import compile_model
from tilewright.testing.small_networks import SMALL, small_network

pytest.importorskip("torch")
pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # PyTorch's own warnings


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float16") for name in SMALL), ("mobilenet_v2", "float32"), ("bert_base", "float32")],
)
def test_compiling_needs_no_gpu(name: str, dtype: str) -> None:
    from tilewright.frontend.torch import import_module

    module, x = small_network(name, dtype)
    model: Any = compile_model(import_module(module, (x,)), "nvidia/nvidia-h200")
    counts = {call.group.name: len(call.kernel.module.resources) for call in model.calls}
    # Sums of many numbers for few results come in parts.
    assert all(count == 1 or "mean" in name for name, count in counts.items()), counts
