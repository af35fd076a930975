"""The tutorials run as they are, each in a process of its own, and say what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# a line of what each prints
SHOWN = {
    "01_first_kernel.py": "the sums agree with NumPy; ",
    "02_lowering.py": "rewrote 1 product in tiled",
    "03_intrinsics.py": "Y[v_i] = T.softsign(X[v_i])",
    "04_compile.py": "<softmax(x: float32[n, m]) -> y: float32[n, m], compiled for n=4, m=1000; ",
    "06_from_onnx.py": "the saved model gives the same results",
    "05_gpu_matmul.py": "the schedule without a search multiplies with tw_wgmma_m64n",
}
NEEDED = {"06_from_onnx.py": ["onnx"]}  # packages that it is about


def test_all_are_listed() -> None:
    assert sorted(path.name for path in TUTORIALS.glob("*.py")) == sorted(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_tutorial(name: str, tmp_path: Path) -> None:
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    command = [sys.executable, "-W", "error", str(TUTORIALS / name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SHOWN[name] in done.stdout
    assert list(tmp_path.iterdir()) == []
