"""`tilewright tune --target cuda` on a real GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cuda
PROGRAM = """
from tilewright.script import tir as T


@T.prim_func
def gemm(
    A: T.Buffer((512, 512), "float16"),
    B: T.Buffer((512, 512), "float16"),
    C: T.Buffer((512, 512), "float32"),
):
    for i, j, k in T.grid(512, 512, 512):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")
"""


def tune(folder: Path, *options: str) -> list[dict[str, Any]]:
    """The events that a run of the command tells of, one a line."""
    (folder / "gemm.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "tilewright.cli", "tune", "gemm.py:gemm", "--target", "cuda"]
    done = subprocess.run(
        [*command, "--json", *options], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_a_search(tmp_path: Path) -> None:
    (result,) = tune(tmp_path, "--effort", "none")
    assert "wgmma.accumulator" in result["script"]
    assert 0 < result["share_of_roofline"] <= 1


def test_a_search(tmp_path: Path) -> None:
    summary = tune(tmp_path, "--trials", "4")[-1]
    (result,) = summary["tasks"]
    assert 0 < result["best_secs"] < 1e-3
    assert 0 < result["share_of_roofline"] <= 1
    assert (tmp_path / ".tilewright").is_dir()
