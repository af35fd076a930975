"""`tilewright bench --target cuda` on a real GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cuda
PROGRAM = """
import torch
from tilewright import te

def gemm():
    a, b = (te.placeholder((256, 256), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 256), name="k")
    c = te.compute((256, 256), lambda i, j: te.sum(
        a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k), name="C")
    return te.create_prim_func([a, b, c])

def with_torch(a, b, c):
    return (torch.from_dlpack(a).float() @ torch.from_dlpack(b).float())

def wrongly(a, b, c):
    return torch.from_dlpack(a).float()
"""


def bench(folder: Path, *options: str, status: int = 0) -> list[dict[str, Any]]:
    """The versions that a run of the command compares."""
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "tilewright.cli", "bench", "--target", "cuda", "--json"]
    done = subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["versions"]
    print("\n", [(each["name"], each["secs"], each["agrees"]) for each in found])
    return found


def test_a_workload(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = bench(tmp_path, "SFM:0")
    assert [each["name"] for each in found] == ["naive", "zero-search", "PyTorch"]
    assert all(each["agrees"] and 0 < each["secs"] < 1 for each in found)


def test_a_function_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    right = bench(tmp_path, "program.py:gemm", "--against", "program.py:with_torch")
    assert [each["name"] for each in right] == ["naive", "zero-search", "program:with_torch"]
    assert all(each["agrees"] for each in right)
    wrong = bench(tmp_path, "program.py:gemm", "--against", "program.py:wrongly", status=1)
    assert [each["agrees"] for each in wrong] == [True, True, False]
