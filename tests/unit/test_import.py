"""`import tilewright` stays cheap: heavy libraries are loaded by the parts that need them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"llvmlite", "typer", "rich", "torch", "onnx", "cuda", "lightgbm", "z3"}


@pytest.mark.parametrize("module", ["tilewright", "tilewright.target"])
def test_import_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
