"""Small versions of the eight networks of the model zoo, against PyTorch on the same GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.model import compile_model

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tilewright.frontend.torch import import_module  # noqa: E402

pytestmark = pytest.mark.cuda
WIDTH = 12 * 32


def _zoo() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "models" / "zoo.py"
    spec = importlib.util.spec_from_file_location("zoo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["zoo"] = module
    spec.loader.exec_module(module)
    return module


zoo = _zoo()


def vgg() -> Any:
    layers: list[Any] = []
    for inputs, outputs in ((3, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 96), nn.ReLU(), nn.Linear(96, 10))


SMALL: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "resnet18": (lambda: zoo.ResNet((1, 1), 1), (2, 3, 64, 64)),
    "resnet50": (lambda: zoo.ResNet((1, 1), 4), (2, 3, 64, 64)),
    "mobilenet_v2": (
        lambda: zoo.Mobile(((1, 16, 1, 1, 3), (6, 24, 2, 2, 3)), 64, nn.ReLU6, False),
        (2, 3, 32, 32),
    ),
    "efficientnet_b0": (
        lambda: zoo.Mobile(((1, 16, 1, 1, 3), (6, 24, 2, 2, 5)), 64, nn.SiLU, True),
        (2, 3, 32, 32),
    ),
    "vgg16": (vgg, (2, 3, 32, 32)),
    "bert_base": (lambda: zoo.Bert(WIDTH, 2), (2, 20)),
    "gpt2_small": (lambda: zoo.Gpt2(WIDTH, 2), (2, 20)),
    "vit_b16": (lambda: zoo.Vit(WIDTH, 1), (1, 3, 224, 224)),
}


def small(name: str, dtype: str) -> tuple[Any, Any]:
    """A network and an input for it."""
    torch.manual_seed(0)
    make, shape = SMALL[name]
    module = make().eval().to(getattr(torch, dtype))
    x = torch.randint(0, 1000, shape) if len(shape) == 2 else torch.randn(shape)
    return module, x.to(getattr(torch, dtype)) if len(shape) > 2 else x


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", SMALL)
def test_results(name: str, dtype: str) -> None:
    module, x = small(name, dtype)
    compiled: Any = compile_model(import_module(module, (x,)), "cuda")
    with torch.no_grad():
        made = module.float()(x.float() if x.is_floating_point() else x)
    wanted = made if isinstance(made, tuple) else (made,)
    limit = 0.02 if dtype == "float16" else 2e-4
    for x_on_gpu in (x.cuda(), tw.nd.array(x.numpy(), tw.cuda())):
        for found, want in zip(compiled(x_on_gpu), wanted, strict=True):
            scale = float(want.abs().max())
            assert np.abs(found.numpy().astype("float32") - want.numpy()).max() <= limit * scale


def test_profile_has_a_time_for_each_kernel() -> None:
    module, x = small("vgg16", "float16")
    compiled: Any = compile_model(import_module(module, (x,)), "cuda")
    steps = compiled.profile(x.cuda())
    assert len(steps) == len(compiled.calls)
    assert all(step.seconds > 0 for step in steps)
