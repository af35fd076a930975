"""`docs/live_page.md`: its functions run, its options and pages exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tilewright.cli import app

PAGE = Path(__file__).parents[3] / "docs" / "live_page.md"


def test_the_functions_of_the_page_run(filled: Path, serving: Any) -> None:
    pytest.importorskip("starlette", reason="the live page needs tilewright[serve]")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    with serving(names["application"](filled)) as address:
        assert names["best_times"](address) == {
            "mm · C 16x16x16": 1e-6,
            "big · C 64x64x64": 2e-5,
            "C 8x8x8": 5e-7,
        }


def test_the_options_of_the_page_exist() -> None:
    shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    options = set(re.findall(r"tilewright serve.*?(--\w+)", PAGE.read_text(encoding="utf-8")))
    assert options == {"--db", "--host"}
    assert all(option in shown for option in (*options, "--token", "--port"))


def test_pages_are_named_as_they_are(visitor: Any) -> None:
    rows = re.findall(r"^\| ([A-Z]\w+(?: \w+)?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    navigation = re.search(r"<nav.*?</nav>", visitor.get("/").text)
    assert navigation is not None
    assert re.findall(r">([^<]+)</a>", navigation[0]) == rows
