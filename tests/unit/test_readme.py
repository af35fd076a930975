"""Every Python snippet of the README runs, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.config import variables

README = Path(__file__).parents[2] / "README.md"
_SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_snippets_run(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    snippets = _SNIPPET.findall(text)
    assert snippets, "the README shows no Python"
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, snippet in enumerate(snippets):
        # A real file, because scripts are parsed from their source.
        path = tmp_path / f"readme_{number}.py"
        path.write_text(snippet, encoding="utf-8")
        exec(compile(snippet, str(path), "exec"), namespace)


def test_all_settings_are_listed() -> None:
    text = README.read_text(encoding="utf-8")
    for variable in variables():
        assert f"| `{variable.name}` | {variable.help} |" in text


def test_links_lead_somewhere() -> None:
    prose = _CODE.sub("", README.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)#]+)\)", prose):
        assert link.startswith("http") or (README.parent / link).exists(), link
