"""`tilewright inspect|build|check|bench|tune MODEL --target cuda` on a real GPU."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.model import compile_model, load, served_by, tune_model
from tilewright.model.compiled import results_of
from tilewright.model.finals import random_inputs
from tilewright.model.schedules import Match

pytestmark = pytest.mark.cuda
LAYERS = """
import numpy as np
from tilewright.graph import Graph, GraphBuilder, TensorType

"""
TORCH = """
import torch
from torch import nn

def network():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 128)).half()
    return module, (torch.randn(64, 256).half(),)
"""


def layers() -> Graph:
    """Two products with what follows them, and a softmax."""
    rng = np.random.default_rng(0)
    net = GraphBuilder()
    x = net.input("x", TensorType((64, 256), "float16"))
    for number, (inputs, outputs) in enumerate(((256, 512), (512, 128))):
        weight = (rng.standard_normal((outputs, inputs)) / 16).astype("float16")
        x = net.call("nn.dense", x, net.constant(weight), source=f"fc{number}")
        x = net.call("nn.relu", x, source=f"act{number}")
    return net.graph([net.call("nn.softmax", x, source="last")])


def command(folder: Path, *arguments: str, status: int = 0) -> str:
    run = [sys.executable, "-W", "ignore", "-m", "tilewright.cli", *arguments]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layers.py").write_text(LAYERS + inspect.getsource(layers))
    (tmp_path / "network.py").write_text(TORCH)
    return tmp_path


def test_build_and_load(folder: Path) -> None:
    said = command(folder, "build", "layers.py:layers", "--target", "cuda", "-o", "m.twm")
    assert "saved as m.twm" in said
    model, graph = load(folder / "m.twm"), layers()
    inputs = random_inputs(graph)
    again = compile_model(graph, "cuda")
    for ours, theirs in zip(results_of(model, inputs), results_of(again, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    x = tw.nd.array(inputs[0], tw.cuda())
    profile = model.profile(x)
    assert all(step.seconds > 0 and 0 < (step.roofline_share or 0) <= 1 for step in profile)
    assert 0 < profile.seconds < 1e-3
    assert again.check(graph, x).is_right
    assert "tilewright" in command(folder, "bench", "m.twm")


def test_check(folder: Path) -> None:
    said = command(folder, "check", "layers.py:layers", "--target", "cuda")
    assert "layers agrees with plain loops" in said


def test_bench_against_pytorch(folder: Path) -> None:
    pytest.importorskip("torch")
    said = command(
        folder, "bench", "network.py:network", "--target", "cuda", "--against", "torch", "--json"
    )
    versions: list[dict[str, Any]] = json.loads(said)["versions"]
    assert [version["name"] for version in versions] == ["calculated", "PyTorch"]
    assert all(version["difference"] is None and version["secs"] > 0 for version in versions)


def test_tune(folder: Path) -> None:
    said = command(
        folder, "tune", "layers.py:layers", "--target", "cuda", "--trials", "12", "--json"
    )
    result = json.loads(said.splitlines()[-1])
    assert result["difference"] is None
    assert result["saved_as"] == "layers.twm"
    assert "exact" in {kernel["served_by"] for kernel in result["kernels"]}
    assert load(folder / "layers.twm").device == tw.cuda()


def test_records_serve_a_model() -> None:
    graph = layers()
    database = tune_model(graph, "cuda", max_trials_global=6, console=False)
    model = compile_model(graph, "cuda", database)
    assert served_by(model).count(Match.EXACT) > 0
    inputs = random_inputs(graph)
    assert model.check(graph, *inputs).is_right
