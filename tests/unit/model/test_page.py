"""What docs/models.md shows about compiled models runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "models.md"
_SECTIONS = ("Running", "Files", "Libraries for C", "Where the time goes", "Is it right?")


def _blocks() -> list[str]:
    parts = re.split(r"^## (.*)$", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return [
        block
        for name in _SECTIONS
        for block in re.findall(r"^```python\n(.*?)^```$", sections[name], re.MULTILINE | re.DOTALL)
    ]


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = _blocks()
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, str(_PAGE), "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} == {
        "net.twm", "net.so", "net.h", "net_example.c"
    }  # fmt: skip
    assert names["slowest"].seconds > 0
