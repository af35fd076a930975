"""The page on tensor instructions names all that are built in, and is what the registry says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "intrinsics.md"
TOOL = ROOT / "tools" / "make_intrinsic_docs.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_intrinsic_docs", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    # In a process of its own: tests register instructions too.
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run tools/make_intrinsic_docs.py\n{done.stdout}{done.stderr}"


def test_ranges_and_features_are_told() -> None:
    rows = [
        line for line in PAGE.read_text().splitlines() if line.startswith("| `dot_16x4_avx512`")
    ]
    assert len(rows) == 1
    cells = [cell.strip() for cell in rows[0].strip("|").split(" | ")]
    assert cells[0] == "`dot_16x4_avx512`, `_local`"
    assert cells[-2:] == ["`avx512bw`", "0 <= A <= 128"]


def test_every_section_has_rows(tool: ModuleType) -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert [text.splitlines()[0] for text in sections] == [title for title, _, _ in tool.SECTIONS]
    assert all(text.count("\n| `") >= 1 for text in sections)
