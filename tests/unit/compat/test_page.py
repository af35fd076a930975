"""docs/coming_from_tvm.md: its snippets run, its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.compat import run
from tilewright.compat.differences import MISSING
from tilewright.lowering.context import WITHOUT_EFFECT

PAGE = Path(__file__).parents[3] / "docs" / "coming_from_tvm.md"
TEXT = PAGE.read_text(encoding="utf-8")


def rows(title: str) -> dict[str, str]:
    section = TEXT.split(f"## {title}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", section, re.MULTILINE))


def test_snippets_run(tmp_path: Path) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 5
    script = tmp_path / "page.py"
    script.write_text("\n".join(snippets), encoding="utf-8")
    run([str(script)])


def test_what_is_missing_is_listed() -> None:
    assert rows("What is not here") == dict(MISSING)


def test_options_without_effect_are_listed() -> None:
    assert rows("Options of `PassContext` without effect") == dict(WITHOUT_EFFECT)
