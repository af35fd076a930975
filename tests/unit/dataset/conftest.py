"""A dataset of two small models."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")


def write_model(path: Path, widths: tuple[int, ...], unknown: str = "") -> None:
    """Products with activations between them."""
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, name = [], [], "x"
    for number, (inputs, outputs) in enumerate(pairwise(widths)):
        weight = np.ones((inputs, outputs), np.float32)
        constants.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{number}"], [f"m{number}"]))
        nodes.append(helper.make_node(unknown or "Relu", [f"m{number}"], [f"r{number}"]))
        name = f"r{number}"
    graph = helper.make_graph(
        nodes, "main", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, widths[0]])],
        [helper.make_empty_tensor_value_info(name)], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def make_model() -> Callable[..., None]:
    return write_model


@pytest.fixture
def sampled(tmp_path: Path) -> Any:
    """Two models, three tasks, six candidates each."""
    from tilewright.dataset import collect_models, extract_dataset_tasks, sample_candidates

    for name, widths in (("one", (48, 64, 96)), ("two", (48, 64))):
        write_model(tmp_path / f"{name}.onnx", widths)
    folder = tmp_path / "data"
    files = [str(tmp_path / f"{name}.onnx") for name in ("one", "two")]
    told: list[str] = []
    quiet = told.append
    collect_models(folder, files, tell=quiet)
    extract_dataset_tasks(folder, "llvm -num-cores=1", tell=quiet)
    return sample_candidates(folder, 6, tell=quiet)
