"""Small versions of the networks that benchmarks measure, through both frontends.

The structure is that of the large ones: residuals, depthwise convolutions, gates, attention with
and without a mask, norms before and behind. Results are compared with PyTorch's.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.byoc import external_nodes, partition
from tilewright.graph import Graph, parse_graph
from tilewright.graph.passes.pipeline import simplify
from tilewright.graph.printer import print_graph
from tilewright.measure import EvaluatorConfig, LocalBuilder, LocalRunner
from tilewright.model import compile_model
from tilewright.records import BuilderInput, RunnerInput, TensorInfo
from tilewright.target import Target
from tilewright.testing import custom_builder_runner as hooks

torch = pytest.importorskip("torch")

from tilewright.frontend.torch import import_exported, import_module  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

ZOO = Path(__file__).resolve().parents[3] / "benchmarks" / "models" / "zoo.py"
NAMES = (
    "resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vgg16", "bert_base", "gpt2_small",
    "vit_b16",
)  # fmt: skip
# Nodes that must be gone, and nodes that must be there, once a graph is simple.
GONE = {
    "resnet18": {"nn.batch_norm"}, "resnet50": {"nn.batch_norm"},
    "mobilenet_v2": {"nn.batch_norm"}, "efficientnet_b0": {"nn.batch_norm"}, "vgg16": set(),
    "bert_base": {"nn.softmax", "transpose"}, "gpt2_small": {"nn.softmax", "transpose"},
    "vit_b16": {"nn.softmax"},
}  # fmt: skip


@pytest.fixture(scope="module")
def zoo() -> Any:
    """The module that builds the networks."""
    spec = importlib.util.spec_from_file_location("zoo", ZOO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data classes look themselves up
    spec.loader.exec_module(module)
    return module


def _imported(zoo: Any, name: str, frontend: str, folder: Path) -> Graph:
    if frontend == "onnx":
        pytest.importorskip("onnx")
        from tilewright.frontend.onnx import import_onnx

        return import_onnx(str(zoo.export(name, folder, small=True)))
    if frontend == "export":
        return import_exported(torch.export.load(zoo.export_program(name, folder, small=True)))
    return import_module(*zoo.network(name, small=True))


def test_all_networks_are_here(zoo: Any) -> None:
    assert tuple(zoo.NETWORKS) == tuple(zoo.SMALL) == NAMES


@pytest.mark.parametrize("frontend", ["torch", "onnx"])
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_pytorch(zoo: Any, name: str, frontend: str, tmp_path: Path) -> None:
    module, inputs = zoo.network(name, small=True)
    with torch.no_grad():
        wanted = module(*inputs)
    graph = _imported(zoo, name, frontend, tmp_path)
    simple = simplify(graph)
    assert not GONE[name] & {node.op for node in simple.nodes}
    made = compile_model(graph)(*(tensor.numpy() for tensor in inputs))
    expected = wanted if isinstance(wanted, tuple) else (wanted,)
    for one, other in zip(made, expected, strict=True):
        largest = float(other.abs().max())
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-5 * largest)


def test_exported_programs_are_imported(zoo: Any, tmp_path: Path) -> None:
    _, inputs = zoo.network("vit_b16", small=True)
    arrays = [tensor.numpy() for tensor in inputs]
    one, other = (
        compile_model(_imported(zoo, "vit_b16", way, tmp_path)) for way in ("torch", "export")
    )
    np.testing.assert_array_equal(one(*arrays)[0], other(*arrays)[0])


@pytest.mark.parametrize("frontend", ["torch", "onnx"])
@pytest.mark.parametrize("name", NAMES)
def test_texts_parse_back(zoo: Any, name: str, frontend: str, tmp_path: Path) -> None:
    """Imported and simplified; the contents of constants are not part of the text."""
    graph = _imported(zoo, name, frontend, tmp_path)
    for one in (graph, simplify(graph)):
        text = print_graph(one)
        assert print_graph(parse_graph(text)) == text


@pytest.mark.parametrize("library", ["onnxruntime", "openvino"])
def test_a_whole_network_goes_to_another_library(library: str, zoo: Any, tmp_path: Path) -> None:
    """The flow of TVM's test of TensorRT on ResNet-18 as it is: partition, build, load, run."""
    pytest.importorskip(library)
    pytest.importorskip("onnx")
    from tilewright.frontend.onnx import import_onnx

    module, inputs = zoo.network("resnet18")
    graph = import_onnx(str(zoo.export("resnet18", tmp_path)))
    parts = partition(graph, library)
    assert len(external_nodes(parts, library)) == len(parts.nodes) == 1
    with torch.no_grad():
        wanted = module.eval()(*inputs).numpy()
    (found,) = compile_model(parts)(*(tensor.numpy() for tensor in inputs))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)

    build = getattr(hooks, f"build_graph_with_{library}")
    builder = LocalBuilder(f_build=build, f_export=hooks.export_graph, timeout_sec=300)
    runner = LocalRunner(
        timeout_sec=300,
        evaluator_config=EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0),
        f_load=hooks.load_graph,
        f_run_evaluator=hooks.run_with_graph_executor,
    )
    mod, params = hooks.graph_module(graph)
    (built,) = builder.build([BuilderInput(mod, Target("llvm"), params)])
    assert built.error_msg is None
    assert built.artifact_path is not None
    info = (TensorInfo("float32", graph.inputs[0].type.extents),)
    (future,) = runner.run([RunnerInput(built.artifact_path, "llvm", info)])
    result = future.result()
    assert result.error_msg is None
    assert result.run_secs is not None
    assert len(result.run_secs) == 2


def test_networks_that_are_not_there(tmp_path: Path) -> None:
    """Said before anything is written."""
    folder = tmp_path / "out"
    command = [sys.executable, str(ZOO), str(folder), "resnet18", "mobilenetv2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no network mobilenetv2; known: resnet18, " in done.stderr
    assert not folder.exists()
