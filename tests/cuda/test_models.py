"""Small versions of the eight networks of the model zoo, against PyTorch on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.model import compile_model
from tilewright.testing.small_networks import SMALL, small_network

torch = pytest.importorskip("torch")
# PyTorch warns of its own functions.
pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("ignore::FutureWarning")]


def compiled(module: Any, x: Any) -> Any:
    from tilewright.frontend.torch import import_module

    return compile_model(import_module(module, (x,)), "cuda")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", SMALL)
def test_results(name: str, dtype: str) -> None:
    module, x = small_network(name, dtype)
    model = compiled(module, x)
    with torch.no_grad():
        made = module.float()(x.float() if x.is_floating_point() else x)
    wanted = made if isinstance(made, tuple) else (made,)
    limit = 0.02 if dtype == "float16" else 2e-4
    for x_on_gpu in (x.cuda(), tw.nd.array(x.numpy(), tw.cuda())):
        for found, want in zip(model(x_on_gpu), wanted, strict=True):
            scale = float(want.abs().max())
            assert np.abs(found.numpy().astype("float32") - want.numpy()).max() <= limit * scale


def test_profile_has_a_time_for_each_kernel() -> None:
    module, x = small_network("vgg16", "float16")
    model = compiled(module, x)
    steps = model.profile(x.cuda())
    assert len(steps) == len(model.calls)
    assert all(step.seconds > 0 for step in steps)
