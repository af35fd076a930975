"""`torch.compile(model, backend="tilewright")` on tensors of a real GPU."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tilewright.frontend.torch.backend import FallbackWarning, compile_fx  # noqa: E402
from tilewright.testing.small_networks import small_network  # noqa: E402

pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 24)).eval().half().cuda()


def said_by(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in seen if each.category is FallbackWarning]


@pytest.mark.parametrize("freeze", [False, True])
def test_results_stay_on_the_gpu(freeze: bool) -> None:
    model = perceptron()
    run = torch.compile(model, backend=compile_fx, dynamic=False, options={"freeze": freeze})
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(16, 64, dtype=torch.float16, device="cuda")
            made: list[Any] = []
            assert said_by(lambda: made.append(run(x))) == []  # noqa: B023
            assert made[0].is_cuda
            torch.testing.assert_close(made[0], model(x), rtol=1e-2, atol=1e-2)
        model[0].weight.add_(0.25)
        torch.testing.assert_close(run(x), model(x), rtol=1e-2, atol=2e-2)


def test_tensors_that_do_not_lie_in_order_and_a_stream_of_its_own() -> None:
    run = torch.compile(lambda x: x.exp() * 2, backend=compile_fx, dynamic=False)
    x = torch.randn(64, 33, device="cuda")[:, 1:].t()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        made = run(x)
    stream.synchronize()
    torch.testing.assert_close(made, x.exp() * 2, rtol=1e-5, atol=1e-5)


def test_what_has_no_kernels_runs_in_pytorch() -> None:
    def function(x: Any) -> Any:
        return torch.special.bessel_j0(x @ x).relu() * 2

    x, made = torch.randn(32, 32, device="cuda"), []
    run = torch.compile(function, backend=compile_fx, dynamic=False)
    (said,) = said_by(lambda: made.append(run(x)))
    assert "a model for a GPU needs kernels for all of its operators" in said
    torch.testing.assert_close(made[0], function(x))


def test_a_transformer() -> None:
    module, x = small_network("bert_base", "float16")
    theirs = copy.deepcopy(module).cuda()
    run = torch.compile(module.cuda(), backend=compile_fx, dynamic=False, options={"freeze": True})
    with torch.no_grad():
        for found, want in zip(run(x.cuda()), theirs(x.cuda()), strict=True):
            assert (found - want).abs().max() <= 0.02 * want.abs().max()
