"""Hooks written for TVM are found in worker processes, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.compat import tvm_imports
from tilewright.measure.pool import PoolOptions, Task, WorkerPool

HOOK = "import tvm\n\n\ndef version(payload):\n    return tvm.__version__.encode()\n"


def test_a_hook_that_imports_tvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hook_for_tvm.py").write_text(HOOK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with tvm_imports():
        pool = WorkerPool(PoolOptions(max_workers=1))
        try:
            (outcome,) = pool.run([Task("hook_for_tvm:version", b"", 60.0)])
        finally:
            pool.close()
    assert outcome.payload == b"0.14.0", outcome.message
