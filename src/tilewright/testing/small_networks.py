"""Small versions of the networks in `benchmarks/models/zoo.py`, with all kinds of their layers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

_WIDTH = 12 * 32  # of the states of transformers, which have 12 heads


@cache
def _zoo() -> Any:
    path = Path(__file__).parents[3] / "benchmarks" / "models" / "zoo.py"
    spec = importlib.util.spec_from_file_location("tilewright_zoo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


def module_of(function: Callable[..., Any]) -> Any:
    """A module of PyTorch that calls a function."""
    from torch import nn

    class Function(nn.Module):  # type: ignore[misc]
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)

    return Function()


def _mobile(kernel: int, act: str, gated: bool) -> Any:
    from torch import nn

    rows = ((1, 16, 1, 1, 3), (6, 24, 2, 2, kernel))
    return _zoo().Mobile(rows, 64, getattr(nn, act), gated)


def _vgg() -> Any:
    from torch import nn

    layers: list[Any] = []
    for inputs, outputs in ((3, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 96), nn.ReLU(), nn.Linear(96, 10))


SMALL: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "resnet18": (lambda: _zoo().ResNet((1, 1), 1), (2, 3, 64, 64)),
    "resnet50": (lambda: _zoo().ResNet((1, 1), 4), (2, 3, 64, 64)),
    "mobilenet_v2": (lambda: _mobile(3, "ReLU6", False), (2, 3, 32, 32)),
    "efficientnet_b0": (lambda: _mobile(5, "SiLU", True), (2, 3, 32, 32)),
    "vgg16": (_vgg, (2, 3, 32, 32)),
    "bert_base": (lambda: _zoo().Bert(_WIDTH, 1), (2, 20)),
    "gpt2_small": (lambda: _zoo().Gpt2(_WIDTH, 1), (2, 20)),
    "vit_b16": (lambda: _zoo().Vit(_WIDTH, 1), (1, 3, 224, 224)),
}


def small_network(name: str, dtype: str) -> tuple[Any, Any]:
    """A network for PyTorch, and an input for it."""
    import torch

    torch.manual_seed(0)
    make, shape = SMALL[name]
    module = make().eval().to(getattr(torch, dtype))
    if len(shape) == 2:
        return module, torch.randint(0, 1000, shape)
    return module, torch.randn(shape).to(getattr(torch, dtype))
