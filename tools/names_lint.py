"""Checks names and first sentences of `src/`: one class a name, and docstrings that state.

`python tools/names_lint.py` fails if two modules define a public class of the same name, if the
docstring of a module opens with a question word ("What callers write" asks, "Turns arguments into
objects" says), or if any docstring opens with a question: "Is it known?" asks, "True if it is
known" says.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

QUESTION_WORDS = ("What", "How", "Which", "Why", "Where", "When", "Who", "Whose", "Whether")
QUESTION = re.compile(r"[^`.]*\?")


def riddles(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Modules whose docstring opens with a question word."""
    for place, tree in trees.items():
        words = (ast.get_docstring(tree) or "").split()
        if words and words[0].rstrip(",:;") in QUESTION_WORDS:
            yield f"{place}:1: the docstring opens with '{words[0]}': begin with a noun or a verb"


def questions(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Docstrings whose first sentence is a question."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for place, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, kinds) and QUESTION.match(ast.get_docstring(node) or ""):
                line = node.body[0].lineno
                yield f"{place}:{line}: the docstring asks: say `True if ...`, or what it does"


def shared_class_names(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Public classes that have the name of another one."""
    places = defaultdict(list)
    for place, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{place}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{found[0]}: the class `{name}` is defined again in {', '.join(found[1:])}"


def main() -> int:
    """Prints what breaks the rules; 1 if anything does."""
    root = Path(__file__).parents[1]
    paths = sorted((root / "src").rglob("*.py"))
    trees = {
        str(path.relative_to(root)): ast.parse(path.read_text(encoding="utf-8")) for path in paths
    }
    lines = [*riddles(trees), *questions(trees), *shared_class_names(trees)]
    print("\n".join([*lines, f"{len(lines)} names and docstrings to mend"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
