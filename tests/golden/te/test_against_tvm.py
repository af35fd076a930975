"""The workloads as TVM makes them, where TVM is installed in an environment of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.testing.te_workload import CONFIGS, create_te_workload
from tilewright.testing.tvm_process import answers_of

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
def test_workloads_equal_those_of_tvm(tvm_python: Path) -> None:
    expected: dict[str, list[str]]
    (expected,) = answers_of(tvm_python, "-c", _ASK)
    assert len(expected) == 13
    for name, texts in expected.items():
        assert len(texts) == len(CONFIGS[name][1])
        for index, text in enumerate(texts):
            assert _normal(str(create_te_workload(name, index))) == _normal(text), (name, index)
