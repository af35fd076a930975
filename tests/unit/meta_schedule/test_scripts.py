"""TVM's tuning scripts with the arguments that people know, from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.dataset import Dataset
from tilewright.errors import TuneError
from tilewright.meta_schedule.testing import (
    dataset_collect_models,
    dataset_extract_tasks,
    dataset_sample_candidates,
    distributed_measure_candidates,
    tune_onnx,
    tune_te,
)
from tilewright.meta_schedule.testing.script_options import input_infos, tuning_parser

_QUICK = ["--target", "llvm", "--number", "1", "--min-repeat-ms", "1"]
_SHAPES = [{"name": "x", "dtype": "float32", "shape": [4, 16]}]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A layer whose number of rows is open."""
    onnx = pytest.importorskip("onnx", minversion="1.21")
    helper = onnx.helper
    weight = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 16])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 8])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "layer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return path


def test_a_model_of_onnx_is_tuned(model: Path, tmp_path: Path, capsys: Any) -> None:
    shapes = ["--model-name", "layer", "--onnx-path", str(model), "--input-shape"]
    work = ["--num-trials", "3", "--work-dir", str(tmp_path / "work")]
    assert tune_onnx.main([*shapes, json.dumps(_SHAPES), *work, *_QUICK]) == 0
    said = capsys.readouterr().out
    assert "Workload: layer" in said
    assert "Total" in said
    assert "1 kernel: 1 " in said
    assert (tmp_path / "work").is_dir()


def test_a_workload_is_tuned(tmp_path: Path, capsys: Any) -> None:
    work = ["--workload", "SFM", "--num-trials", "2", "--work-dir", str(tmp_path)]
    assert tune_te.main([*work, *_QUICK, "--rpc-host", "nobody"]) == 0
    said = capsys.readouterr().out
    assert "Tuning Time:" in said
    assert "def main(" in said


def test_a_dataset_in_four_steps(model: Path, tmp_path: Path) -> None:
    """As the seeds run them: every folder is the same one."""
    pytest.importorskip("onnx", minversion="1.21")
    folder = str(tmp_path / "data")
    dataset_collect_models.main(["--model_cache_dir", folder, str(_bound(model, tmp_path))])
    dataset_extract_tasks.main(["--model_cache_dir", folder, "--task_cache_dir", folder])
    dataset_sample_candidates.main(
        ["--task_cache_dir", folder, "--candidate_cache_dir", folder, "--num_samples_per_task", "2"]
    )
    distributed_measure_candidates.main(
        ["--candidate_cache_dir", folder, "--result_cache_dir", folder, "--batch_size", "2"]
    )
    dataset = Dataset(folder)
    (task,) = dataset.tasks()
    assert task.name == "fused_nn_matmul_nn_relu"
    assert len(dataset.measurements(task)) == len(dataset.candidates(task)) > 0


def _bound(model: Path, folder: Path) -> Path:
    """The model with a number of rows."""
    import onnx

    proto = onnx.load(str(model))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    path = folder / "bound.onnx"
    onnx.save(proto, str(path))
    return path


def test_folders_that_differ() -> None:
    text = r"^the steps of a dataset share one folder; got a and b$"
    with pytest.raises(TuneError, match=text):
        dataset_extract_tasks.main(["--model_cache_dir", "a", "--task_cache_dir", "b"])


def test_shapes_of_inputs() -> None:
    assert input_infos(json.dumps(_SHAPES)) == _SHAPES
    for text in ("x", '{"name": 1}', '[{"name": "x", "shape": [1]}]'):
        with pytest.raises(TuneError, match=r"^--input-shape .*: expected JSON such as \[\{"):
            input_infos(text)


def test_truth_values_are_words(capsys: Any) -> None:
    parser = tuning_parser("tune")
    given = ["--num-trials", "1", "--work-dir", "w", "--cpu-flush"]
    assert parser.parse_args([*given, "True"]).cpu_flush is True
    assert parser.parse_args([*given, "0"]).cpu_flush is False
    with pytest.raises(SystemExit):
        parser.parse_args([*given, "maybe"])
    assert "'maybe' is neither True nor False" in capsys.readouterr().err
