"""The lints of the house find what they are for."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[3] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_definitions_without_a_user(tmp_path: Path) -> None:
    source = '''
"""Mentions `forgotten`, which does not make it used."""
LIMIT = 3
def used(): return LIMIT
def forgotten(): return used()
@registry.register("x")
def registered(): ...
class Thing:
    def asked(self): ...
    def never_asked(self): ...
'''
    root = write(
        tmp_path,
        {
            "src/tilewright/a.py": source,
            "src/tilewright/b.py": "from tilewright.a import Thing\nThing().asked()\n",
            "tests/test_a.py": "from tilewright.a import forgotten\nforgotten()\n",
            "docs/page.md": "",
        },
    )
    lines = load("dead_code").unused(root)
    assert [line.split("`")[1] for line in lines] == ["forgotten", "never_asked"]


def test_tables_of_names_and_pages_are_users(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "src/tilewright/a.py": "def by_name(): ...\ndef on_a_page(): ...\n",
            "src/tilewright/b.py": "NAMES = {'x': 'tilewright.a:by_name'}\nprint(NAMES)\n",
            "docs/page.md": "Call `on_a_page()`.",
        },
    )
    assert load("dead_code").unused(root) == []


def test_class_names_and_docstrings() -> None:
    lint = load("names_lint")
    trees = {
        "a.py": ast.parse('"""What it is."""\nclass Nest: ...\nclass _Own: ...\n'),
        "b.py": ast.parse('"""Loops around blocks."""\nclass Nest: ...\nclass _Own: ...\n'),
    }
    assert list(lint.riddles(trees)) == [
        "a.py:1: the docstring opens with 'What': begin with a noun or a verb"
    ]
    assert list(lint.shared_class_names(trees)) == [
        "a.py:2: the class `Nest` is defined again in b.py:2"
    ]


def test_docstrings_that_ask() -> None:
    lint = load("names_lint")
    source = '''
def known() -> bool:
    """Is it known?"""

def hint() -> str:
    """Returns `"did you mean 'x'?"`."""
'''
    assert list(lint.questions({"a.py": ast.parse(source)})) == [
        "a.py:3: the docstring asks: say `True if ...`, or what it does"
    ]
