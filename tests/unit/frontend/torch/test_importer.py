"""Modules of PyTorch as graphs: results are PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.errors import GraphError
from tilewright.graph import operator, parse_graph
from tilewright.model import compile_model
from tilewright.testing.small_networks import module_of

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tilewright.frontend.partial import PartialImportWarning  # noqa: E402
from tilewright.frontend.torch import import_exported, import_module  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def check(module: Any, *inputs: Any, tolerance: float = 1e-5) -> Any:
    module = module.eval() if isinstance(module, nn.Module) else module_of(module)
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


def test_linear_and_silu_stay_whole() -> None:
    torch.manual_seed(0)
    graph = check(nn.Sequential(nn.Linear(4, 6, bias=False), nn.SiLU()), torch.randn(2, 4))
    assert [node.op for node in graph.nodes] == ["nn.dense", "nn.silu"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.max(1)[0] + x.min(1, keepdim=False)[1],
        lambda x: torch.max(x, -x) - torch.min(x, x * 2),
        lambda x: (
            F.native_layer_norm(x, (7,), None, None, 1e-5)[0]
            if hasattr(F, "native_layer_norm")
            else torch.native_layer_norm(x, (7,), None, None, 1e-5)[0]
        ),
    ],
)
def test_functions_of_several_results(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    check(function, torch.randn(2, 5, 7))


def bessel(x: Any) -> Any:
    return torch.special.bessel_j0(x @ x).relu()


def test_operators_that_are_missing_are_listed_at_once() -> None:
    module = module_of(lambda x: bessel(x) + torch.special.airy_ai(x))
    with pytest.raises(GraphError) as error:
        import_module(module, (torch.randn(32, 32),))
    assert str(error.value) == (
        "operators that cannot be imported yet: special_airy_ai.default (1: special_airy_ai); "
        "special_bessel_j0.default (1: special_bessel_j0); the rest has 94.3 % of 71.7 kFLOP, "
        "and partial=True runs these in PyTorch"
    )


def test_operators_that_are_missing_run_in_pytorch() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 8)
    with pytest.warns(PartialImportWarning) as seen:
        graph = import_module(module_of(bessel), (x,), partial=True)
    assert [str(one.message) for one in seen if one.category is PartialImportWarning] == [
        "computed in PyTorch: special_bessel_j0.default (special_bessel_j0) cannot be imported "
        "yet; the rest has 89.5 % of 1.22 kFLOP"
    ]
    assert [node.op for node in graph.nodes] == ["matmul", "external", "nn.relu"]
    found = compile_model(parse_graph(graph.script()))(x.numpy())[0]
    np.testing.assert_allclose(found, bessel(x).numpy(), rtol=1e-4, atol=1e-5)


def test_calls_with_lists_types_and_several_results() -> None:
    torch.manual_seed(0)

    def function(x: Any) -> Any:
        values, places = torch.topk(x, 3, dim=1)
        table = torch.linalg.qr(x)
        return values, places, torch.cumsum(x, 0, dtype=torch.float64), table[1].abs()

    x = torch.randn(6, 5)
    with pytest.warns(PartialImportWarning):
        graph = import_module(module_of(function), (x,), partial=True)
    for ours, theirs in zip(compile_model(graph)(x.numpy()), function(x), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_shapes_that_depend_on_data_are_refused() -> None:
    with pytest.raises(GraphError, match="is known only when it runs"):
        import_module(module_of(lambda x: x.nonzero() * 2), (torch.randn(3),), partial=True)


def test_sizes_that_are_not_known_are_refused() -> None:
    sizes = ({1: torch.export.Dim("columns", min=2, max=64)},)
    module = nn.Sequential(nn.Flatten(), nn.ReLU())
    exported = torch.export.export(module, (torch.randn(4, 8, 2),), dynamic_shapes=sizes)
    with pytest.raises(GraphError) as error:
        import_exported(exported)
    assert str(error.value) == (
        "axis 1 of input input has no size that is known: export the module without dynamic_shapes"
    )


def test_nan_in_weights() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    module[0].weight.data[1, 2] = float("nan")
    with pytest.raises(GraphError) as error:
        import_module(module, (torch.randn(1, 4),))
    assert str(error.value) == (
        "linear.default (linear): its weight '0.weight' contains NaN; pass allow_nan=True to "
        "import it anyway"
    )
    assert len(import_module(module, (torch.randn(1, 4),), allow_nan=True).nodes) >= 2


def test_types_that_no_array_of_ours_has_name_the_call() -> None:
    model = module_of(lambda x: torch.view_as_real(torch.fft.rfft(x)))
    with pytest.raises(GraphError) as error:
        import_module(model, (torch.randn(4, 8),), partial=True)
    assert str(error.value) == (
        "_fft_r2c.default (_fft_r2c) returns elements of type complex64, which is not supported"
    )


def test_a_program_that_writes_to_its_input_is_refused() -> None:
    with pytest.raises(GraphError) as error:
        import_module(module_of(lambda x: x.add_(1).sum()), (torch.randn(3),))
    assert str(error.value) == ("the program writes to its inputs (add), which a graph cannot do")


def test_a_module_that_cannot_be_exported() -> None:
    def choose(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(GraphError, match=r"torch\.export refuses the module: "):
        import_module(module_of(choose), (torch.randn(3),))


def test_one_decorated_function_adds_an_operator() -> None:
    soft = torch.library.custom_op(
        "acme_test::soft",
        lambda x, slope: torch.clamp(x * slope, 0, 1),
        mutates_args=(),
        schema="(Tensor x, float slope) -> Tensor",
    )
    soft.register_fake(lambda x, slope: torch.empty_like(x))

    @operator("acme_test.soft")
    def ours(x: te.Tensor, slope: float) -> te.Tensor:
        return topi.clip(topi.multiply(x, slope), 0.0, 1.0)

    graph = check(lambda x: soft(x, 0.5) + 1, torch.randn(9))
    assert [node.op for node in graph.nodes] == ["acme_test.soft", "add"]


def test_an_imported_module_stays_in_its_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4))
    module[2].eval()
    graph = import_module(module, torch.randn(2, 4))
    assert [part.training for part in module.modules()] == [True, True, True, False]
    assert "nn.batch_norm" in [node.op for node in graph.nodes]
    with pytest.raises(GraphError):
        import_module(module, (torch.randn(2, 5),))
    assert module.training


def test_functions_are_no_modules() -> None:
    with pytest.raises(GraphError) as error:
        import_module(lambda x: x, (torch.randn(2),))
    assert str(error.value) == "expected a torch.nn.Module, got function"


def test_warnings_of_pytorch_about_itself_are_not_passed_on() -> None:
    """PyTorch 2.13 copies what it calls deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        import_module(nn.ReLU(), (torch.ones(2, 3),))
