"""Every Python snippet of the README runs, in order, in one namespace, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.config import variables

README = Path(__file__).parents[2] / "README.md"
# A snippet, and the output that may be shown right after it.
_SNIPPET = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_snippets_print_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = README.read_text(encoding="utf-8")
    snippets = list(_SNIPPET.finditer(text))
    assert len(snippets) == text.count("```python")
    assert sum(snippet["output"] is not None for snippet in snippets) == text.count("```text") >= 3
    monkeypatch.chdir(tmp_path)  # snippets write files
    namespace: dict[str, object] = {"__name__": "readme"}
    for number, snippet in enumerate(snippets):
        # A real file, because scripts are parsed from their source.
        path = tmp_path / f"readme_{number}.py"
        code = snippet["code"].replace('tune="5s"', 'tune="1s"')  # enough for some candidates
        path.write_text(code, encoding="utf-8")
        exec(compile(code, str(path), "exec"), namespace)
        printed = capsys.readouterr().out
        if snippet["output"] is not None:
            assert printed == snippet["output"]


def test_all_settings_are_listed() -> None:
    text = README.read_text(encoding="utf-8")
    for variable in variables():
        assert f"| `{variable.name}` | {variable.help} |" in text


def test_links_lead_somewhere() -> None:
    prose = _CODE.sub("", README.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)#]+)\)", prose):
        assert link.startswith("http") or (README.parent / link).exists(), link


def test_it_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 300
