"""`tilewright bench`: versions side by side. Times are real, so they are not looked at."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tilewright.cli import bench as bench_command
from tilewright.measure import side_by_side
from tilewright.measure.side_by_side import TimedVersion

PROGRAM = """
import numpy as np
from tilewright.testing import te_workload

def mm():
    return te_workload.matmul(32, 32, 32)

def with_numpy(a, b, c):
    return a @ b

def wrongly(a, b, c):
    return a @ b + 1

def of_another_shape(a, b, c):
    return a[0]
"""
TARGET = ("--target", "llvm -num-cores=4")


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "ROUNDS", 2)
    monkeypatch.setattr(side_by_side, "ROW_SECS", 1e-5)
    monkeypatch.setattr(side_by_side, "SETTLE_SECS", 0.0)
    monkeypatch.setattr(side_by_side, "NOISY", 1e9)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))


@pytest.fixture
def file(command: Any) -> str:
    Path("program.py").write_text(PROGRAM)
    return "program.py:mm"


def test_a_program_that_nobody_tuned(command: Any, file: str) -> None:
    lines = command("bench", file, *TARGET).lines
    assert lines[0].startswith("mm C 32x32x32 on llvm ")
    assert lines[1].split() == [
        "version",
        "time",
        "GFLOPS",
        "of",
        "roofline",
        "speed-up",
        "results",
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["naive", "zero-search"]
    assert all(line.endswith("agree") for line in lines[2:4])
    assert lines[4:] == ["tuned: there are no records yet; run `tilewright tune mm`"]


def test_a_program_that_is_known(command: Any, records: Path) -> None:
    Path("program.py").write_text(PROGRAM)
    shown = json.loads(command("bench", "program.py:mm", *TARGET, "--json").out)
    assert [version["name"] for version in shown["versions"]] == ["naive", "zero-search", "tuned"]
    assert all(version["agrees"] for version in shown["versions"])
    assert all(version["secs"] > 0 for version in shown["versions"])
    assert shown["notes"] == []


def test_against_a_function_of_ones_own(command: Any, file: str) -> None:
    lines = command("bench", file, *TARGET, "--against", "program.py:with_numpy").lines
    assert lines[4].startswith("program:with_numpy  ")
    assert lines[4].endswith("agree")


def test_a_rival_that_is_no_function_of_a_file(command: Any, file: str) -> None:
    err = command("bench", file, *TARGET, "--against", "numpi", status=2).err
    assert err == ("error: --against numpi: expected FILE.py:NAME, a Python function of a file\n")


def test_other_results_are_told(command: Any, file: str) -> None:
    wrong = command("bench", file, *TARGET, "--against", "program.py:wrongly", status=1)
    assert "output 0: 1024 of 1024 elements are wrong, the first at [0, 0]" in wrong.lines[4]
    other = command("bench", file, *TARGET, "--against", "program.py:of_another_shape", status=1)
    assert other.lines[4].endswith("output 0 has the shape (32,), not (32, 32)")


def test_a_busy_machine_is_mentioned(
    command: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "NOISY", 0.5)
    assert command("bench", file, *TARGET).lines[-1].endswith(": this machine is busy")
    monkeypatch.setattr(side_by_side, "NOISY", 1e9)
    monkeypatch.setattr("os.getloadavg", lambda: (6.25, 0.5, 0.5))
    assert command("bench", file, *TARGET).lines[-1] == (
        "the load of this machine was 6.2 on 4 cores: times may be too long"
    )


def test_slow_versions_run_once() -> None:
    runs: list[int] = []

    def run(number: int) -> float:
        runs.append(number)
        return 2.0 * number

    slow = TimedVersion("slow", run, lambda: [])
    quick = TimedVersion("quick", lambda number: 1e-6 * number, lambda: [])
    side_by_side.compare([slow, quick])
    assert runs == [1, 1]
    assert slow.secs == 2.0
    assert quick.secs == pytest.approx(1e-6)
    assert len(quick.rows) == 2


# --- PyTorch ------------------------------------------------------------------------------------


def test_without_pytorch(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_command, "find_spec", lambda name: None)
    assert command("bench", "NRM:0").lines[-1] == "PyTorch: not installed here"


def test_with_pytorch(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType(bench_command.TORCH_WORKLOADS)

    def make(name: str, arguments: Any, arrays: Any) -> Any:
        assert (name, arguments) == ("NRM", (1, 256, 256))

        def call() -> Any:
            return np.sqrt((arrays[0].astype("float64") ** 2).sum((1, 2))).astype("float32")

        return call, call

    fake.__dict__.update(MAKERS={"NRM": None}, make=make)
    monkeypatch.setattr(bench_command, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, bench_command.TORCH_WORKLOADS, fake)
    assert command("bench", "NRM:0").lines[4].startswith("PyTorch ")
    assert command("bench", "NRM:0").lines[4].endswith("agree")
    fake.__dict__["MAKERS"] = {}
    assert command("bench", "NRM:0").lines[-1] == "PyTorch: no counterpart of NRM"


FAILING = """
import sys
import numpy as np

def raises(a, b, c):
    raise ValueError("no\\nway")

def takes_one(a):
    return a

def text(a, b, c):
    return np.array(["x"])

def nothing(a, b, c):
    pass

def ends(a, b, c):
    sys.exit(3)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", "failing.py cannot call raises() with 3 arrays: ValueError: no way (line 6)"),
        (
            "takes_one",
            "failing.py cannot call takes_one() with 3 arrays: TypeError: takes_one() takes 1 "
            "positional argument but 3 were given",
        ),
        (
            "text",
            "failing:text returns ndarray of <U1, expected the output as an array of numbers",
        ),
        ("nothing", "failing:nothing returns nothing, expected the output as an array of numbers"),
        ("ends", "failing.py cannot call ends() with 3 arrays: SystemExit: 3 (line 18)"),
    ],
)
def test_functions_of_others_that_fail(command: Any, file: str, name: str, message: str) -> None:
    Path("failing.py").write_text(FAILING)
    done = command("bench", file, *TARGET, "--against", f"failing.py:{name}", status=2)
    assert done.err == f"error: {message}\n"
    assert done.out == ""
