"""`docs/other_libraries.md`: its programs run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "other_libraries.md"


def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.splitlines() == [
        "operators that cannot be imported yet: Det (1: volume); the rest has 94 % of 1.09 kFLOP, "
        "and partial=True runs these by reference",
        "65536.0",
        "['external', 'acme.hardness']",
        "0.125",
    ]
