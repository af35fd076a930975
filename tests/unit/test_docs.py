"""The documentation keeps up with the code: folders, decisions and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"\]\(([^)#]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = _CODE.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.findall(prose):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_architecture_lists_every_folder() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    packages = ROOT / "src" / "tilewright"
    folders = {path.parent.name for path in packages.glob("*/__init__.py")}
    missing = [name for name in sorted(folders) if f"`{name}/`" not in text]
    assert missing == []


def test_every_decision_is_listed() -> None:
    index = (DOCS / "design" / "README.md").read_text(encoding="utf-8")
    for page in sorted((DOCS / "design").glob("0*.md")):
        assert page.name in index
        title = page.read_text(encoding="utf-8").splitlines()[0].split(": ", 1)[1]
        assert title in index or page.name.startswith("0000"), title
