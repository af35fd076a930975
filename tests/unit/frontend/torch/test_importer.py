"""Modules of PyTorch as graphs: results are PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.model import compile_model

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tilewright.frontend.torch import import_module  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Lambda(nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def check(module: Any, *inputs: Any, tolerance: float = 1e-5) -> Any:
    module = module.eval() if isinstance(module, nn.Module) else Lambda(module)
    graph = import_module(module, inputs)
    with torch.no_grad():
        wanted = module(*inputs)
    found = compile_model(graph)(*(x.numpy() for x in inputs))
    for ours, theirs in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=tolerance, atol=tolerance)
    return graph


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.silu(x) + F.gelu(x, approximate="tanh"),
        lambda x: torch.clamp(x, -0.5, 0.5) * 2 - x / 3,
        lambda x: x.transpose(1, 2).reshape(2, -1)[:, 3:40:2],
        lambda x: torch.cat([x, x * 2], 1).mean(1),
        lambda x: torch.softmax(x, -1).sum(1, keepdim=True),
        lambda x: x.split([2, 3], 1)[1] + x.unbind(2)[0].unsqueeze(2)[:, :3],
        lambda x: torch.where(x > 0, x, torch.zeros_like(x)).amax(2),
        lambda x: x.permute(2, 0, 1).contiguous().view(7, 10).argmax(1),
        lambda x: F.hardswish(x) + F.hardsigmoid(x) + F.relu6(x) + F.leaky_relu(x, 0.2),
        lambda x: F.pad(x, (1, 2, 0, 1), value=3.0),
        lambda x: (x**2).sqrt() + x.pow(3) + 1.5 - (1 - x),
    ],
)
def test_functions(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    check(function, torch.randn(2, 5, 7))


def test_a_small_network() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 1, groups=8),
        nn.SiLU(), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip
    graph = check(network, torch.randn(1, 3, 24, 24))
    assert [node.op for node in graph.nodes].count("nn.batch_norm") == 1


def test_attention_stays_whole() -> None:
    torch.manual_seed(0)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    graph = check(attend, *(torch.randn(1, 2, 6, 4) for _ in range(3)))
    assert [node.op for node in graph.nodes] == ["nn.attention"]


def test_a_layer_of_a_transformer() -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.LayerNorm(8))
    check(layer, torch.randn(1, 4, 8))


def test_numbers_of_tokens() -> None:
    torch.manual_seed(0)
    check(nn.Embedding(11, 4), torch.tensor([[1, 10, 0]]))


def test_operators_that_are_missing_are_listed_at_once() -> None:
    module = Lambda(lambda x: torch.linalg.det(x) + torch.special.bessel_j0(x).sum())
    with pytest.raises(GraphError, match=r"operators that cannot be imported yet: .*bessel_j0"):
        import_module(module, (torch.randn(3, 3),))


class TestBackend:
    """`torch.compile`."""

    @pytest.fixture
    def model(self) -> Any:
        torch._dynamo.reset()
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()

    def test_changed_weights_are_seen(self, model: Any) -> None:
        from tilewright.frontend.torch.backend import compile_fx

        compiled, x = torch.compile(model, backend=compile_fx, dynamic=False), torch.randn(4, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
            model[0].weight.add_(0.5)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
            model[2].weight = nn.Parameter(torch.randn(3, 16))
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)

    def test_training_is_left_to_pytorch(self, model: Any) -> None:
        from tilewright.frontend.torch.backend import FallbackWarning, compile_fx

        compiled = torch.compile(model, backend=compile_fx, dynamic=False)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            compiled(torch.randn(4, 8)).sum().backward()
        told = [str(each.message) for each in seen if each.category is FallbackWarning]
        assert told == [
            "a graph runs in PyTorch: training is not compiled; "
            "call the model under torch.no_grad()"
        ]
        assert model[0].weight.grad is not None
