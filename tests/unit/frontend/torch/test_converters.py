"""Operators of PyTorch, each against PyTorch: types that meet, corners, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.model import compile_model
from tilewright.testing.small_networks import module_of

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tilewright.frontend.torch import context, import_module  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def check(module: Any, *inputs: Any) -> None:
    """Every operator by our own kernels; results and their types are PyTorch's."""
    module = module.eval() if isinstance(module, nn.Module) else module_of(module)
    model = compile_model(import_module(module, inputs))
    with torch.no_grad():
        wanted = module(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for ours, theirs in zip(model(*(x.numpy() for x in inputs)), wanted, strict=True):
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        tolerance = 1e-3 if theirs.dtype is torch.float16 else 1e-5
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=tolerance, atol=tolerance)


def integers(*shape: int, low: int = -5, high: int = 5, dtype: Any = torch.int64) -> Any:
    return torch.randint(low, high, shape, dtype=dtype)


def truths(*shape: int) -> Any:
    return torch.rand(*shape) > 0.5


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x >= 2.5, x < 2.5, x == 2.5, x != 2, x.float() <= 2),
        lambda x: (x.clamp(0.5, 2.5), x.clamp(min=1), x / 2, 1.5 - x, x * 2.5),
        lambda x: (x // 2, x % 3, torch.div(x, 2, rounding_mode="trunc"), torch.fmod(x, 3)),
        lambda x: (x**2, x**3, x.abs() ** 0.5, x.abs() ** 2.5, 2 ** x.abs(), 2.0**x, x**-1.0),
        lambda x: (x.sum(0), x.prod(1), x.cumsum(0), x.int().sum(0), x.int().prod(1)),
        lambda x: (x & 3, x | 3, x ^ 3, ~x, x.abs() << 2, x >> 1),
        lambda x: (torch.logical_and(x, x > 1), torch.logical_xor(x, x.float())),
        lambda x: (torch.cat([x, x.float()]), torch.stack([x.int(), x])),
        lambda x: (torch.where(x > 0, x.int(), x.float()), x.masked_fill(x > 1, 7)),
        lambda x: (x.to(torch.int8) > 2, x.to(torch.int8) * 2, x.to(torch.uint8) % 7),
    ],
)
def test_integers(function: Callable[..., Any]) -> None:
    check(function, integers(6, 7) + 10 * (integers(6, 7) == 0))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, x: (a + b, a * b, torch.maximum(a, b), torch.minimum(a, b)),
        lambda a, b, x: (a & b, a | b, a ^ b, ~a, a == b, a != b, a < b, a < 2),
        lambda a, b, x: (a == x, a > x, a * 2.5, a.sum(), a.any(1), a.all(), x + a),
    ],
)
def test_truth_values(function: Callable[..., Any]) -> None:
    check(function, truths(5, 7), truths(5, 7), integers(5, 7).float())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x.round(decimals=2), (x * 100).round(decimals=-1), x.reciprocal()),
        lambda x, y: (x.abs().log10(), torch.exp2(x), torch.expm1(x * 1e-6) * 1e6, x.expm1()),
        lambda x, y: (F.elu(x * 50), F.selu(x), F.celu(x, 0.7), F.mish(x), F.softplus(x * 50)),
        lambda x, y: (F.logsigmoid(x * 90), F.softplus(x, 3, 2), x.abs().log1p(), x.asinh()),
        lambda x, y: (x % y, torch.fmod(x, y), x // y, x % 0.7, torch.atan2(x, y)),
        lambda x, y: (x.abs() ** y, x**3.0, x**-2, 2**x),
        lambda x, y: (x.clamp(min=y), torch.clamp(x, y, y + 1), x.clamp_max(0.1)),
        lambda x, y: (x.half() * y, x.half() > y, x.double() + y),
        lambda x, y: (torch.add(x, y, alpha=2), torch.addcmul(x, x, y, value=2), x.lerp(y, 0.3)),
    ],
)
def test_floats(function: Callable[..., Any]) -> None:
    check(function, torch.randn(5, 7), torch.randn(5, 7) * 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.repeat(2, 1, 3), x.flip(0, 1), x.rot90(), x.roll(2, 1), x.roll(-3)),
        lambda x: (x.roll((1, 2), (0, 1)), x.unfold(1, 3, 2), F.pad(x, (-1, 2, 0, -2))),
        lambda x: (F.pad(x[None], (1, 2), mode="reflect"), F.pad(x[None], (1, 2), "replicate")),
        lambda x: (x.diagonal(1), x.diagonal(-2), torch.diagonal(x[None], 0, 1, 2)),
        lambda x: x[:5, :5].trace(),
        lambda x: (*x.topk(3), *x.sort(1, descending=True), x.argsort(0)),
        lambda x: x.topk(2, dim=-2, largest=False),
        lambda x: (x.var(1), x.std(0, keepdim=True), *torch.var_mean(x, 1, correction=0)),
        lambda x: (x.norm(), x.norm(p=1, dim=1), x.norm(p=3, dim=0), F.normalize(x)),
        lambda x: (x.norm(p=float("inf"), dim=1), x.norm(p=0), x.cumprod(1), x[:1].var(0)),
        lambda x: (torch.slice_scatter(x, x[:, :3], 1, 1, 7, 2), x.select_scatter(x[:, 0], 1, -1)),
        lambda x: torch.einsum("ii->i", x[:5, :5]),
    ],
)
def test_shapes_and_reductions(function: Callable[..., Any]) -> None:
    check(function, torch.randn(5, 7))


def put_in_slices(x: Any, i: Any, j: Any) -> Any:
    y = x.clone()
    y[1:3, ::2] = 5
    y[y > 1] = 0
    y[i, j] = 3
    return y


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, j: (x[i], x[:, j], x[i, j], x[i[:, None], j], x[[0, -1]]),
        lambda x, i, j: (x[None, i, :, None], x.T[j], x.index_select(-1, j + 7)),
        lambda x, i, j: (x.gather(1, (j + 7)[None]), x[:, None].expand(5, 4, 7)[i, :, j]),
        lambda x, i, j: (x.scatter(1, (j + 7)[None], x[1:2, 2:6]), x.scatter(0, i[None], 2.5)),
        lambda x, i, j: (x.scatter_add(0, i[None], x), x.scatter_reduce(0, i[None], x, "amax")),
        lambda x, i, j: x.index_put((i,), x[:3], accumulate=True),
        lambda x, i, j: (x.index_add(0, i, x[:3]), x.index_copy(1, j[:1] + 7, x[:, :1])),
        put_in_slices,
    ],
)
def test_indices(function: Callable[..., Any]) -> None:
    check(function, torch.randn(5, 7), torch.tensor([3, 0, 4]), torch.tensor([-1, -7, -2]))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.ConvTranspose2d(3, 4, 4, stride=2, padding=1), (2, 3, 5, 5)),
        (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2, dilation=2), (1, 4, 5, 6)),
        (nn.ConvTranspose1d(3, 4, 3, stride=2, bias=False), (2, 3, 7)),
        (nn.ConvTranspose3d(3, 4, 2, stride=2), (1, 3, 3, 4, 5)),
        (nn.ConvTranspose2d(3, 4, 3), (3, 5, 5)),
        (nn.Conv2d(3, 4, 3), (3, 8, 8)),
        (nn.Conv2d(3, 4, 4, padding="same"), (1, 3, 8, 8)),
        (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (1, 3, 8, 8)),
        (nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4)),
        (nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 4)),
        (nn.GroupNorm(2, 4), (2, 4, 5, 5)),
        (nn.GroupNorm(2, 4, affine=False), (2, 4, 5)),
        (nn.InstanceNorm2d(3, affine=True), (2, 3, 5, 5)),
        (nn.LocalResponseNorm(2), (2, 3, 5, 5)),
        (nn.MaxPool1d(3, 2), (2, 3, 11)),
        (nn.MaxPool3d(2), (1, 3, 4, 4, 4)),
        (nn.MaxPool2d(3, 2, 1, return_indices=True, ceil_mode=True), (2, 3, 9, 9)),
        (nn.MaxPool2d(2, 2, dilation=2, return_indices=True), (2, 3, 9, 9)),
        (nn.MaxPool2d(2), (3, 8, 8)),
        (nn.AvgPool1d(3), (2, 3, 11)),
        (nn.AvgPool3d(2), (1, 3, 4, 4, 4)),
        (nn.AdaptiveAvgPool2d((None, 4)), (1, 3, 8, 8)),
    ],
    ids=lambda x: str(x)[:40],
)
def test_layers(module: Any, shape: tuple[int, ...]) -> None:
    check(module, torch.randn(shape))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    layer = kind(4, 5, batch_first=True, bidirectional=True)
    check(lambda x: layer(x)[0], torch.randn(2, 3, 4))


@pytest.mark.parametrize(
    "options",
    [
        {"scale_factor": 2}, {"size": (5, 11)}, {"scale_factor": 1.7},
        {"size": (5, 11), "mode": "nearest-exact"},
        {"scale_factor": 2, "mode": "bilinear"},
        {"scale_factor": (0.6, 1.7), "mode": "bilinear"},
        {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
        {"scale_factor": 1.5, "mode": "bilinear", "align_corners": True},
        {"size": (1, 1), "mode": "bilinear", "align_corners": True},
        {"scale_factor": 2, "mode": "bicubic"},
        {"size": (13, 3), "mode": "bicubic", "align_corners": True},
        {"size": (4, 4), "mode": "area"},
    ],
    ids=str,
)  # fmt: skip
def test_sizes_of_images(options: dict[str, Any]) -> None:
    check(lambda x: F.interpolate(x, **options), torch.randn(2, 3, 8, 8))


@pytest.mark.parametrize(("mode", "rank"), [("nearest", 1), ("linear", 1), ("trilinear", 3)])
def test_sizes_along_other_numbers_of_axes(mode: str, rank: int) -> None:
    check(lambda x: F.interpolate(x, scale_factor=2, mode=mode), torch.randn(1, 2, *[3] * rank))


def test_groups_of_heads() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True)

    key, value = torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    check(attend, torch.randn(2, 4, 5, 8), key, value)


@pytest.mark.parametrize("beta", [0, 1, 2])
def test_products_with_factors(beta: int) -> None:
    a = torch.full((4, 6), float("nan") if beta == 0 else 1.0)
    b, c = torch.randn(4, 5), torch.randn(5, 6)
    check(lambda a, b, c: torch.addmm(a, b, c, beta=beta, alpha=3), a, b, c)
    check(lambda a, b, c: torch.baddbmm(a, b, c, beta=beta, alpha=2), a[None], b[None], c[None])


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: x.view(torch.int32),
            "view.dtype (view): it would make float32[2, 4], and PyTorch makes int32[2, 4]",
        ),
        (
            lambda x: x[x > 0],
            "the shape of what index.Tensor (index) returns is known only when it runs",
        ),
        (
            lambda x: F.avg_pool2d(x[None], 2, divisor_override=3),
            "avg_pool2d.default (avg_pool2d): divisor_override is not supported",
        ),
        (
            lambda x: x * x.sum().item(),
            "operators that cannot be imported yet: _local_scalar_dense.default",
        ),
    ],
)
def test_what_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(GraphError) as error:
        import_module(module_of(function), (torch.randn(2, 4),))
    assert message in str(error.value)


def test_arguments_that_a_converter_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(node: context.CallContext) -> Any:
        made = node.call("matmul", node.value("mat1"), node.value("mat2"))
        return node.call("add", made, node.value("self"))

    monkeypatch.setitem(context._CONVERTERS, "addmm", product)
    square = (torch.randn(3, 3),)
    import_module(module_of(lambda x: torch.addmm(x, x, x)), square)
    with pytest.raises(GraphError) as error:
        import_module(module_of(lambda x: torch.addmm(x, x, x, alpha=3)), square)
    assert str(error.value) == "addmm.default (addmm): alpha=3 is not supported"
