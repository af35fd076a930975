"""The workloads as TVM makes them, where TVM is installed in an environment of its own."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tilewright.testing.te_workload import CONFIGS, create_te_workload

_PYTHON = Path(__file__).parents[3] / ".venv-tvm" / "bin" / "python"
_ASK = """
import json
from tvm import te
from tvm.s_tir.meta_schedule.testing.te_workload import CONFIGS
texts = {}
for name, (maker, shapes) in CONFIGS.items():
    if "WIN" in name:
        continue  # this version can no longer build it
    texts[name] = [te.create_prim_func(maker(*shape)).script() for shape in shapes]
print(json.dumps(texts))
"""
# How TVM 0.25 spells what this project spells as TVM 0.14 did.
_SPELLING = [
    (r"\A.*?(?=@T\.prim_func)", ""),
    (r"\(s_tir=True\)", ""),
    (r"T\.sblock_", "T."),
    (r"T\.sblock\(", "T.block("),
    (r"T\.attr\(", "T.block_attr("),
    (r'"tirx\.noalias": True', '"tir.noalias": T.bool(True)'),
]
_FLOAT = re.compile(r"T\.(float\d+)\((-?[\d.e+-]+)\)")


def _normal(text: str) -> str:
    for pattern, replacement in _SPELLING:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    return _FLOAT.sub(lambda m: f"T.{m[1]}({float(m[2])!r})", text).strip()


@pytest.mark.tvm
@pytest.mark.skipif(not _PYTHON.exists(), reason="TVM is not installed in .venv-tvm")
def test_workloads_equal_those_of_tvm() -> None:
    answer = subprocess.run(
        [str(_PYTHON), "-c", _ASK], capture_output=True, text=True, check=True, timeout=120
    )
    expected: dict[str, list[str]] = json.loads(answer.stdout)
    assert len(expected) == 13
    for name, texts in expected.items():
        assert len(texts) == len(CONFIGS[name][1])
        for index, text in enumerate(texts):
            assert _normal(str(create_te_workload(name, index))) == _normal(text), (name, index)
