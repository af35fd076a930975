"""The manual of the passes names all of them, in their order."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.codegen.cuda import pipeline
from tilewright.lowering import PassContext, list_passes
from tilewright.lowering.pipeline import cpu_passes

PAGE = Path(__file__).parents[3] / "docs" / "passes.md"


def rows(section: str) -> list[str]:
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_page_lists_the_pipeline() -> None:
    names = [step.name for step in cpu_passes(PassContext(), tiles=True)]
    for_gpus = [step.name for step in pipeline.passes_of(PassContext()) if step.name not in names]
    assert rows("The passes") == names
    assert rows("The passes for GPUs") == for_gpus
    assert set(list_passes()) - {*names, *for_gpus} == {"VerifyLowered"}
