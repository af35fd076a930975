"""Whole models under TVM's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import meta_schedule as ms
from tilewright.errors import GraphError, TuneError
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.model import served_by
from tilewright.testing.made_up_runs import MadeUp, NoBuilder

QUICK: dict[str, Any] = {
    "builder": NoBuilder(),
    "cost_model": "random",
    "check": False,
    "console": False,
}


def layer() -> Graph:
    net = GraphBuilder()
    x = net.input("x", TensorType((16, 32), "float32"))
    weight = np.random.default_rng(0).standard_normal((24, 32)).astype(np.float32)
    y = net.call("nn.dense", x, net.constant(weight))
    return net.graph([net.call("nn.relu", y)])


def test_tasks_are_tuned_by_tune_tasks() -> None:
    tasks = ms.extract_tasks(layer(), "llvm -num-cores=2")
    assert isinstance(tasks[0], ms.ExtractedTask)
    contexts, weights = ms.relay_integration.extracted_tasks_to_tune_contexts(
        tasks, strategy="replay-trace", seed=3
    )
    database = ms.tune_tasks(
        tasks=contexts,
        task_weights=weights,
        task_scheduler="model",
        max_trials_global=8,
        runner=MadeUp(),
        **QUICK,
    )
    assert len(database) == 8
    executable = ms.relay_integration.compile_relay(database, layer(), "llvm -num-cores=2")
    assert served_by(executable).summary() == "1 kernel: 1 exact"


def test_a_model_is_tuned_and_compiled(tmp_path: Path) -> None:
    database = ms.relay_integration.tune_relay(
        layer(),
        None,
        "llvm -num-cores=2",
        tmp_path,
        8,
        runner=MadeUp(),
        strategy="replay-trace",
        seed=3,
        **QUICK,
    )
    executable = ms.relay_integration.compile_relay(database, layer(), "llvm -num-cores=2")
    x = np.random.default_rng(1).standard_normal((16, 32)).astype(np.float32)
    weight = next(iter(layer().constants.values()))
    np.testing.assert_allclose(executable(x)[0], np.maximum(x @ weight.T, 0), rtol=1e-4, atol=1e-4)
    database.close()


def test_what_is_not_a_model() -> None:
    with pytest.raises(GraphError, match=r"^a model is a Graph, .* got int$"):
        ms.extract_tasks(3)


def test_a_missing_file() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(GraphError, match=r"^there is no file nowhere.onnx$"):
        ms.extract_tasks("nowhere.onnx")


def test_there_is_one_backend() -> None:
    with pytest.raises(TuneError, match=r"^there is one backend, 'graph'; got 'vm'$"):
        ms.relay_integration.compile_relay(
            ms.database.MemoryDatabase(), layer(), "llvm", backend="vm"
        )
