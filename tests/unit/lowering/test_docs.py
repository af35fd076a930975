"""The manual of the passes names all of them, in their order."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.codegen.llvm.pipeline import passes_of
from tilewright.lowering import PassContext, list_passes

PAGE = Path(__file__).parents[3] / "docs" / "passes.md"


def test_page_lists_the_pipeline() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [step.name for step in passes_of(PassContext())]
    assert set(list_passes()) - set(rows) == {"VerifyLowered"}
