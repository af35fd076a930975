"""`tilewright inspect | tune | bench | check | build` on models."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.cli import model_check, model_tune
from tilewright.cli.originals import Original, difference
from tilewright.database import SQLiteDatabase
from tilewright.model import finals
from tilewright.model.tasks import LAYOUTS
from tilewright.report.model_notes import model_notes
from tilewright.testing.made_up_runs import MadeUp

MODEL = '''
import numpy as np

from tilewright.graph import GraphBuilder, TensorType
from tilewright.testing.te_workload import matmul


def layer():
    """A product with a bias and an activation."""
    net = GraphBuilder()
    x = net.input("x", TensorType((16, 32), "float32"))
    weight = np.random.default_rng(0).standard_normal((24, 32)).astype("float32")
    y = net.call("nn.dense", x, net.constant(weight), source="fc")
    y = net.call("add", y, net.constant(np.ones(24, "float32")))
    return net.graph([net.call("nn.relu", y, source="act")])


def program():
    return matmul(16, 16, 16)


def number():
    return 3
'''
TARGET = ("--target", "llvm -num-cores=2")


@pytest.fixture
def layer(command: Any) -> str:
    Path("model.py").write_text(MODEL)
    return "model.py:layer"


# --- inspect ------------------------------------------------------------------------------------


def test_inspect(command: Any, layer: str) -> None:
    assert command("inspect", layer).lines == [
        "layer: 3 operators, 2.53e-05 GFLOP, 0.000792 M parameters (0.00317 MB)",
        "input x: float32[16, 32]",
        "output relu: float32[16, 24]",
        "1 kernel in 1 task",
        "unsupported operators: none",
        "operator  calls  in the kernels",
        "add       1      1",
        "nn.dense  1      1",
        "nn.relu   1      1",
        "",
        "task                        runs  result           FLOP      share",
        "fused_nn_dense_add_nn_relu  1     float32[16, 24]  2.53e+04  100 %",
    ]


def test_inspect_as_json(command: Any, layer: str) -> None:
    (found,) = map(json.loads, command("inspect", layer, "--json").lines)
    assert (found["model"], found["parameters"], found["unsupported"]) == ("layer", 792, None)
    assert found["inputs"] == {"x": "float32[16, 32]"}
    (task,) = found["tasks"]
    assert (task["task"], task["weight"]) == ("fused_nn_dense_add_nn_relu", 1)
    assert task["sources"] == ["fc", "act"]


def test_layouts(command: Any) -> None:
    Path("net.py").write_text(
        "from tilewright.testing.small_models import small_network\n"
        "def net():\n    return small_network()\n"
    )
    last, first = (command("inspect", "net.py:net", "--layout", each).out for each in LAYOUTS)
    assert "fused_transpose" in last
    assert "float32[1, 8, 8, 16]" in last
    assert "10 kernels in 8 tasks" in first
    assert "float32[1, 16, 8, 8]" in first


# --- check and bench ----------------------------------------------------------------------------


def test_check_agrees(command: Any, layer: str) -> None:
    lines = command("check", layer, *TARGET).lines
    assert lines[0].startswith("output relu: float32[16, 24]: differs by ")
    assert lines[1] == "layer agrees with plain loops"
    (found,) = map(json.loads, command("check", layer, "--json", *TARGET).lines)
    assert (found["original"], found["difference"]) == ("plain loops", None)


def test_check_finds_a_difference(
    command: Any, layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Original("others", lambda inputs: [np.zeros((16, 24), np.float32)])
    monkeypatch.setattr(model_check, "original_of", lambda *_: wrong)
    done = command("check", layer, *TARGET, status=1)
    assert re.search(r"layer differs from others: output 0 differs by \S+ of its", done.out)
    assert done.lines[-1] == (
        "all kernels are right for the imported graph: others computes another one"
    )


def test_bench(command: Any, layer: str) -> None:
    done = command("bench", layer, "--against", "onnxruntime,openvino", *TARGET)
    assert done.lines[0].startswith("layer on llvm ")
    assert re.match(r"calculated +\S+ \S+ +1\.00 +agree", done.lines[2])
    assert "tuned: there are no records yet; run `tilewright tune model.py:layer`" in done.lines
    (note,) = [line for line in done.lines if line.startswith("onnxruntime: ")]
    assert note in (
        "onnxruntime: not installed here",
        "onnxruntime: layer is neither an ONNX file nor a PyTorch module",
    )
    (found,) = map(json.loads, command("bench", layer, "--json", *TARGET).lines)
    assert [version["ratio"] for version in found["versions"]] == [1.0]


def test_programs_are_still_programs(command: Any, layer: str) -> None:
    done = command("bench", "model.py:program", *TARGET)
    assert done.lines[2].startswith("naive ")


@pytest.mark.parametrize(
    ("wanted", "found", "text"),
    [
        ([np.ones(3)], [np.ones(3)], ""),
        ([np.ones(3, "f4")], [np.full(3, 1 + 1e-6, "f4")], ""),
        ([np.ones(3, "f4")], [np.full(3, 1.01, "f4")], "output 0 differs by 0.01 of its largest "),
        ([np.ones(3)], [], "0 outputs instead of 1"),
        ([np.ones(3)], [np.ones(4)], "output 0 is float64[4] instead of float64[3]"),
        ([np.array([np.nan, 1.0])], [np.array([np.nan, 1.0])], ""),
        ([np.array([0.0, 1.0])], [np.array([np.nan, 1.0])], "output 0 differs by inf of its "),
        ([np.array([np.inf])], [np.array([np.inf])], ""),
        ([np.array([1, 2])], [np.array([1, 3])], "output 0 differs in 1 of 2 elements"),
    ],
)
def test_differences(wanted: Sequence[Any], found: Sequence[Any], text: str) -> None:
    told = difference(wanted, found)
    assert told.startswith(text)
    assert bool(told) == bool(text)


# --- tune and build -----------------------------------------------------------------------------


def test_tune(command: Any, layer: str, made_up_runner: MadeUp) -> None:
    lines = command("tune", layer, "--trials", "8", "--seed", "1", *TARGET).lines
    assert lines[:3] == [
        "layer: 3 operators, 1 kernel in 1 task, 2.53e-05 GFLOP",
        "database .tilewright/records.db",
        "1 task",
    ]
    rounds = [line for line in lines if line.startswith("model ") and "of the model after" in line]
    assert re.match(
        r"model \S+ .s, \S+x faster than calculated \(\S+ .s\); fused_nn_den", rounds[-1]
    )
    assert any(re.fullmatch(r"done in \d+ s: \d trials", line) for line in lines)
    assert re.fullmatch(r"1 kernel: 1 (exact|without a record)", lines[-4])
    assert lines[-3:] == [
        "results agree with those of plain loops",
        "saved as layer.twm",
        "all records are in .tilewright/records.db",
    ]
    database = SQLiteDatabase(Path(".tilewright/records.db"))
    (note,) = model_notes(database)
    database.close()
    assert note.name == "layer"
    assert [step.name for step in note.steps] == ["fused_nn_dense_add_nn_relu"]


def test_tune_goes_on(command: Any, layer: str, made_up_runner: MadeUp) -> None:
    again = ("tune", layer, "--trials", "8", "--seed", "1", *TARGET)
    command(*again)
    asked = made_up_runner.asked
    lines = command(*again).lines
    assert re.fullmatch(r"database .tilewright/records.db, \d+ records so far", lines[1])
    assert made_up_runner.asked == asked


def test_bench_after_calculated_kernels_won(
    command: Any, layer: str, made_up_runner: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finals, "_beaten_kernels", lambda changed, *_: {c.kernel for c in changed})
    command("tune", layer, "--trials", "8", "--seed", "1", *TARGET)
    lines = command("bench", layer, *TARGET).lines
    assert [line.split()[0] for line in lines[2:4]] == ["calculated", "tuned"]
    assert "tuned: 1 kernel: 1 without a record" in lines


def test_ctrl_c_leaves_a_model(command: Any, layer: str, made_up_runner: MadeUp) -> None:
    made_up_runner.interrupt_at = 3
    lines = command("tune", layer, "--trials", "16", "--seed", "1", *TARGET, status=130).lines
    assert any(line.startswith("interrupted after ") for line in lines)
    assert "saved as layer.twm" in lines
    assert lines[-1].endswith("; the same command continues from here")
    assert Path("layer.twm").stat().st_size > 0
    assert "fused_nn_dense_add_nn_relu" in command("db", "ls").out


def test_results_that_differ_are_not_saved(
    command: Any, layer: str, made_up_runner: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Original("onnxruntime", lambda inputs: [np.zeros((16, 24), np.float32)])
    monkeypatch.setattr(model_tune, "original_of", lambda *_: wrong)
    lines = command("tune", layer, "--effort", "none", *TARGET, status=1).lines
    assert lines[-1].startswith("error: results differ from those of onnxruntime: output 0 ")
    assert not Path("layer.twm").exists()


def test_tune_as_json(command: Any, layer: str, made_up_runner: MadeUp) -> None:
    done = command("tune", layer, "--trials", "4", "--seed", "1", "--json", *TARGET)
    events = [json.loads(line) for line in done.lines]
    (measured, *_) = [event for event in events if event["event"] == "round_measured"]
    assert measured["share_in_model"] == 1.0
    assert measured["model_secs"] == measured["best_secs"]
    assert events[-1]["event"] == "result"
    assert events[-1]["saved_as"] == "layer.twm"
    (kernel,) = events[-1]["kernels"]
    assert kernel["name"] == "fused_nn_dense_add_nn_relu"


def test_build_bench_and_check_what_was_saved(command: Any, layer: str) -> None:
    lines = command("build", layer, "-o", "own.twm", *TARGET).lines
    assert lines[-2] == "1 kernel: 1 without a record"
    assert re.fullmatch(r"compiled in .* saved as own.twm, \S+ MB", lines[-1])
    done = command("bench", "own.twm", "--against", "torch", *TARGET)
    assert re.match(r"tilewright +\S+ \S+ +1\.00 +agree", done.lines[2])
    assert "torch: a saved model has no original to run" in done.lines


def test_a_library_for_c(command: Any, layer: str) -> None:
    lines = command("build", layer, "-o", "net.so", *TARGET).lines
    assert "saved as net.so" in lines[-1]
    assert Path("net.so").read_bytes().startswith(b"\x7fELF")
    assert "int32_t net_run(" in Path("net.h").read_text()
    assert Path("net_example.c").exists()


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "none.onnx"], "there is no file none.onnx"),
        (["tune", "none.onnx", "--trials", "1"], "there is no file none.onnx"),
        (["bench", "none.onnx"], "there is no file none.onnx"),
        (["check", "none.onnx"], "there is no file none.onnx"),
        (["build", "none.onnx"], "there is no file none.onnx"),
        (["inspect", "model.py:layr"], "model.py has no 'layr'; did you mean 'layer'?"),
        (["inspect", "GMM:0"], "GMM:0 is not a model; write FILE.onnx, FILE.twm, or "),
        (["inspect", "model.py:program"], "model.py:program is not a model; write FILE.onnx, "),
        (["inspect", "model.py:number"], "model.py:number is not a model; write FILE.onnx, "),
        (["inspect", "model.py:layer", "--layout", "hwc"], "there is no layout 'hwc'; "),
        (["inspect", "model.py:layer", "--dim", "b"], "--dim b: expected a name and a size, such "),
        (["inspect", "model.py:layer", "--shape", "x=1x"], "--shape x=1x: expected a name and a "),
        (["check", "none.twm"], "there is no file none.twm"),
        (["bench", "none.twm"], "there is no file none.twm"),
        (
            ["bench", "model.py:layer", "--against", "trch"],
            "--against trch: there is no such rival",
        ),
        (
            ["build", "model.py:layer", "-o", "no/m.twm"],
            "there is no directory no; create it first",
        ),
        (["build", "model.py:layer", "-o", "."], ". is a directory; name a file"),
        (
            ["build", "model.py:layer", "-o", "net.bin"],
            "net.bin is no name for a model; end it in .twm, or .so for C",
        ),
        (["tune", "model.py:layer", "model.py:program"], "a model is tuned alone; got 2 names"),
        *(
            (
                [verb, "model.py:layer", "--target", "nvidia/nvidia-h200"],
                "--target nvidia/nvidia-h200: its code cannot run here: ",
            )
            for verb in ("tune", "bench", "check")
        ),
        (["tune", "model.py:layer", "--bound"], "--bound is for programs; the weights of a model"),
        (["tune", "model.py:layer", "--budget", "10x"], "--budget 10x: expected a time such as "),
        (
            ["tune", "model.py:layer", "--cost-model", "no.npz"],
            "--cost-model no.npz: there is no such file",
        ),
        (["space", "show", "none.onnx"], "none.onnx is a model, expected a program; "),
    ],
)
def test_mistakes_end_with_one_line(
    command: Any, layer: str, arguments: list[str], message: str
) -> None:
    done = command(*arguments, status=2)
    (line,) = done.err.splitlines()
    assert line.startswith(f"error: {message}")
    assert {path.name for path in Path().iterdir()} <= {"model.py", "__pycache__"}


def test_compiled_models_are_not_checked_again(command: Any) -> None:
    Path("model.twm").write_bytes(b"")
    (line,) = command("check", "model.twm", status=2).err.splitlines()
    assert line == "error: model.twm is compiled already; give the model that it was made of"


# --- PyTorch ------------------------------------------------------------------------------------

TORCH = """
import torch
from torch import nn


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 4), nn.ReLU()), (torch.zeros(2, 8),)


def bare():
    return net()[0]


def exported():
    module, inputs = net()
    return torch.export.export(module, inputs)
"""


@pytest.fixture
def torch_file(command: Any) -> str:
    pytest.importorskip("torch")
    Path("nets.py").write_text(TORCH)
    return "nets.py"


def test_modules_of_pytorch(command: Any, torch_file: str) -> None:
    assert "net agrees with PyTorch" in command("check", f"{torch_file}:net", *TARGET).lines
    done = command("bench", f"{torch_file}:net", "--against", "torch", *TARGET)
    assert any(re.match(r"PyTorch +\S+ \S+ +\S+ +agree", line) for line in done.lines)
    shape = command("inspect", f"{torch_file}:bare", "--shape", "x=3x8").lines[1]
    assert shape == "input input: float32[3, 8]"
    assert command("inspect", f"{torch_file}:exported").lines[1] == "input input: float32[2, 8]"


def test_a_module_without_inputs(command: Any, torch_file: str) -> None:
    assert command("inspect", f"{torch_file}:bare", status=2).err == (
        "error: the shapes of the inputs of Sequential are not known: give the module with its "
        "inputs, (module, inputs), or --shape\n"
    )
