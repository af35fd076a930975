"""`torch.compile(model, backend="tilewright")`: results are eager PyTorch's, always."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright import model as models
from tilewright.errors import ArgumentError, GraphError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tilewright.frontend.partial import PartialImportWarning  # noqa: E402
from tilewright.frontend.torch import backend  # noqa: E402
from tilewright.frontend.torch.backend import FallbackWarning, compile_fx  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are compiled, in order."""
    seen: list[Any] = []
    original = models.compile_model

    def watched(graph: Any, *args: Any) -> Any:
        seen.append(graph)
        return original(graph, *args)

    monkeypatch.setattr(backend, "compile_model", watched)
    return seen


def compiled(model: Any, **options: Any) -> Any:
    chosen = {"options": options} if options else {}
    return torch.compile(model, backend=compile_fx, dynamic=False, **chosen)


def told(run: Callable[[], Any], category: type[Warning] = FallbackWarning) -> list[str]:
    """The warnings of one kind."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in seen if each.category is category]


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a perceptron, with norms before them."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


def network() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1, groups=8),
        nn.SiLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    ).eval()  # fmt: skip


class Recurrent(nn.Module):  # type: ignore[misc]
    """A layer that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        states, _ = self.cell(x)
        return self.head(states[:, -1])


CASES = [
    pytest.param(network, (1, 3, 12, 12), marks=pytest.mark.slow),
    pytest.param(Block, (2, 5, 16), marks=pytest.mark.slow),
    (Recurrent, (2, 3, 4)),
    (perceptron, (4, 8)),
]


@pytest.mark.parametrize(("make", "shape"), CASES)
@pytest.mark.parametrize("freeze", [False, True])
def test_models(make: Callable[[], Any], shape: tuple[int, ...], freeze: bool) -> None:
    model = make().eval()
    run = compiled(model, freeze=freeze)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(shape)
            close(run(x), model(x))


def test_only_frozen_weights_are_constants(graphs: list[Any]) -> None:
    with torch.no_grad():
        compiled(perceptron())(torch.randn(4, 8))
        compiled(perceptron(), freeze=True)(torch.randn(4, 8))
    assert [len(graph.inputs) for graph in graphs] == [5, 1]


@pytest.mark.slow
@pytest.mark.parametrize("freeze", [False, True])
def test_changed_weights_are_seen(graphs: list[Any], freeze: bool) -> None:
    model = perceptron()
    run, x = compiled(model, freeze=freeze), torch.randn(4, 8)
    with torch.no_grad():
        close(run(x), model(x))
        model[0].weight.add_(0.5)
        close(run(x), model(x))
        model[2].weight = nn.Parameter(torch.randn(3, 16))
        close(run(x), model(x))
        model.load_state_dict(perceptron().state_dict())
        close(run(x), model(x))
        close(run(x), model(x))
    assert len(graphs) == (4 if freeze else 1)


def test_another_parameter_in_the_same_memory_is_seen() -> None:
    model, shared = perceptron(), torch.randn(16, 8).numpy()
    model[0].weight = nn.Parameter(torch.from_numpy(shared))
    run, x = compiled(model, freeze=True), torch.randn(4, 8)
    with torch.no_grad():
        close(run(x), model(x))
        shared *= 2  # through NumPy, which PyTorch does not count
        model[0].weight = nn.Parameter(torch.from_numpy(shared))
        close(run(x), model(x))


@pytest.mark.slow
def test_weights_that_go_on_changing_thaw(graphs: list[Any]) -> None:
    model = perceptron()
    run, x = compiled(model, freeze=True), torch.randn(4, 8)

    def change() -> None:
        with torch.no_grad():
            for _ in range(backend.MAX_CHANGES + 3):
                close(run(x), model(x))
                model[0].weight.mul_(1.5)

    assert told(change) == [
        "parameters changed 5 times, so they are not frozen any more; leave out "
        "options={'freeze': True} while they change"
    ]
    assert len(graphs[-1].inputs) == 5


def test_training_is_left_to_pytorch() -> None:
    model = perceptron()
    run = compiled(model)
    assert told(lambda: run(torch.randn(4, 8)).sum().backward()) == [
        "a graph runs in PyTorch: training is not compiled; call the model under torch.no_grad()"
    ]
    assert model[0].weight.grad is not None
    assert told(lambda: run(torch.randn(4, 8))) == []


def test_operators_that_are_missing_run_in_pytorch(graphs: list[Any]) -> None:
    def function(x: Any) -> Any:
        return torch.special.bessel_j0(x @ x).relu() * 2

    x, results = torch.randn(8, 8), []
    (said,) = told(lambda: results.append(compiled(function)(x)), PartialImportWarning)
    assert said.startswith("computed in PyTorch: special_bessel_j0.default (")
    assert "external" in [node.op for node in graphs[0].nodes]
    close(results[0], function(x))


def test_a_graph_of_which_nothing_is_ours() -> None:
    x, results = torch.randn(8), []
    said = told(lambda: results.append(compiled(torch.special.bessel_j0)(x)))
    assert said == ["a graph runs in PyTorch: none of it would run in our kernels"]
    close(results[0], torch.special.bessel_j0(x))


def test_breaks_of_the_graph(graphs: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = x * 2 + 1
        if y.sum() > 0:
            return y.relu() - 1
        return torch.exp(y)

    run = compiled(function)
    for x in (torch.ones(4), -torch.ones(4)):
        close(run(x), function(x))
    assert len(graphs) == 3


@pytest.mark.slow
def test_sizes_that_change(graphs: list[Any]) -> None:
    model = Block().eval()
    run = torch.compile(model, backend=compile_fx)
    with torch.no_grad():
        for batch, length in ((1, 4), (2, 4), (3, 6), (2, 4), (5, 7), (3, 6)):
            x = torch.randn(batch, length, 16)
            close(run(x), model(x))
    assert 4 <= len(graphs) <= 5  # those of the same size are compiled once


def test_too_many_sizes_run_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "MAX_SIZES", 2)
    run = torch.compile(lambda x: x * 2 + x.shape[0], backend=compile_fx, dynamic=True)

    def call() -> None:
        for extent in range(2, 7):
            x = torch.randn(extent)
            close(run(x), x * 2 + extent)

    assert told(call) == ["a graph runs in PyTorch: it was compiled for 2 different sizes already"]


def test_numbers_that_change_run_in_pytorch() -> None:
    model = torch.compile(lambda x, scale: x * scale, backend=compile_fx, fullgraph=True)
    x = torch.randn(3)
    with torch.no_grad():
        assert torch.equal(model(x, 2.5), x * 2.5)
        (text,) = told(lambda: model(x, 3.5))
        assert torch.equal(model(x, 4.5), x * 4.5)
    assert text == (
        "a graph runs in PyTorch: _local_scalar_dense.default (_local_scalar_dense) returns no "
        "tensor"
    )


def test_inputs_that_are_written_to() -> None:
    def function(x: Any, y: Any) -> Any:
        x.mul_(2)
        y[1:] += 3
        return x + y, x

    mine, theirs = ([torch.arange(4.0), torch.ones(4)] for _ in range(2))
    found, wanted = compiled(function)(*mine), function(*theirs)
    close(found, wanted)
    close(mine, theirs)
    assert found[1].data_ptr() == mine[0].data_ptr()


def test_statistics_of_batches(graphs: list[Any]) -> None:
    model, other = (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)) for _ in range(2))
    other.load_state_dict(model.state_dict())
    run = compiled(model, freeze=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 6)
            close(run(x), other(x))
    close(dict(model.named_buffers()), dict(other.named_buffers()))
    assert len(graphs) == 1


def test_dropout_of_a_model_in_training_mode_drops() -> None:
    run = compiled(lambda x: F.dropout(x * 2, 0.5, training=True) + 0)
    with torch.no_grad():
        made = run(torch.ones(1000))
    assert set(made.tolist()) == {0.0, 4.0}
    assert 300 < int((made == 0).sum()) < 700


def test_a_result_that_is_a_view_of_an_input_shares_its_memory() -> None:
    x = torch.arange(12.0).view(3, 4)
    found = compiled(lambda x: (x.t()[1:], x * 2, x.shape[0]))(x)
    close(found[:2], (x.t()[1:], x * 2))
    assert found[2] == 3
    x.zero_()
    assert not found[0].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32])
def test_types_of_elements(dtype: Any) -> None:
    x = torch.arange(-4, 8).to(dtype).view(3, 4)
    torch.testing.assert_close(compiled(lambda x: (x * 2 + 1).relu())(x), (x * 2 + 1).relu())


def test_tensors_that_do_not_lie_in_order() -> None:
    x = torch.randn(4, 6).t()[::2]
    close(compiled(lambda x: x.exp() + 1)(x), x.exp() + 1)


def test_inference_mode() -> None:
    model = perceptron()
    run, x = compiled(model, freeze=True), torch.randn(4, 8)
    with torch.inference_mode():
        close(run(x), model(x))


def test_types_that_are_not_supported_run_in_pytorch() -> None:
    x, results = torch.randn(4, dtype=torch.complex64), []
    (said,) = told(lambda: results.append(compiled(lambda x: x * 2)(x)))
    assert said.startswith("a graph runs in PyTorch: ")
    close(results[0], x * 2)


@pytest.mark.parametrize(
    ("places", "options", "why"),
    [
        (["cpu", "cuda:0"], {}, "its tensors are on cpu and cuda:0, expected one device"),
        (["cuda:1"], {}, "its tensors are on cuda:1, expected cpu or cuda:0"),
        (["meta:0"], {}, "its tensors are on meta:0, expected cpu or cuda:0"),
        (
            ["cuda:0"],
            {"target": "llvm -num-cores=1"},
            "its tensors are on cuda:0, and the target is llvm",
        ),
        (
            ["cpu"],
            {"target": "nvidia/nvidia-h200"},
            "its tensors are on cpu, and the target is cuda",
        ),
    ],
)
def test_devices_on_which_no_kernels_run(
    places: list[str], options: dict[str, Any], why: str
) -> None:
    tensors = [SimpleNamespace(device=torch.device(place)) for place in places]
    with pytest.raises(GraphError) as caught:
        backend._target_of(tensors, backend.BackendOptions(**options))
    assert str(caught.value) == why


def test_a_target_on_another_device_runs_in_pytorch() -> None:
    run = compiled(lambda x: x * 2, target="nvidia/nvidia-h200")
    assert told(lambda: run(torch.ones(4))) == [
        "a graph runs in PyTorch: its tensors are on cpu, and the target is cuda"
    ]


def test_options_that_do_not_exist() -> None:
    with pytest.raises(ArgumentError) as error:
        compile_fx(None, [], options={"freez": True})
    assert str(error.value) == ("backend tilewright has no option 'freez'; did you mean 'freeze'?")
    with pytest.raises(ArgumentError) as error:
        compile_fx(None, [], mode="max-autotune")
    assert str(error.value) == "backend tilewright has no mode 'max-autotune'; use options={...}"


@pytest.mark.slow
def test_the_name_is_found_by_the_entry_point(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    text = (root / "pyproject.toml").read_text()
    (line,) = re.findall(r'"torch_dynamo_backends"\]\n(.*)', text)
    name, _, place = line.partition(" = ")
    info = tmp_path / "offered-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    entry = f"[torch_dynamo_backends]\n{name} = {place.strip(chr(34))}\n"
    (info / "entry_points.txt").write_text(entry)
    code = """
import torch, warnings
warnings.simplefilter("ignore")
assert "tilewright" in torch._dynamo.list_backends()
run = torch.compile(lambda x: x * 2 + 1, backend="tilewright")
print(run(torch.arange(3.0)).tolist())
"""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[1.0, 3.0, 5.0]"
