"""Keeps functions and files small: lists what is over the limits and fails if anything is.

`python tools/size_report.py [folder ...]` also prints the medians, so that drift shows early.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_LIMIT = 600
FUNCTION_LIMIT = 80

# Places that may be larger, and why: a path, or a path and the name of a function in it.
ALLOWED: dict[str, tuple[int, str]] = {
    "src/tilewright/testing/handwritten.py packed_matmul": (90, "one loop nest, read as a whole"),
}


@dataclass(frozen=True)
class Size:
    """Lines of one function or file, docstrings not counted for functions."""

    place: str
    lines: int
    limit: int


def function_sizes(path: Path, tree: ast.Module) -> Iterator[Size]:
    """The size of every function in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            limit, _ = ALLOWED.get(f"{path.as_posix()} {node.name}", (FUNCTION_LIMIT, ""))
            yield Size(f"{path}:{node.lineno} {node.name}", lines, limit)


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def measure(folders: list[Path]) -> tuple[list[Size], list[Size]]:
    """Sizes of all files and of all functions below the folders."""
    files: list[Size] = []
    functions: list[Size] = []
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        limit, _ = ALLOWED.get(path.as_posix(), (FILE_LIMIT, ""))
        files.append(Size(str(path), len(text.splitlines()), limit))
        functions += function_sizes(path, ast.parse(text))
    return files, functions


def main(arguments: list[str]) -> int:
    files, functions = measure([Path(name) for name in arguments or ["src", "tests"]])
    for what, sizes in (("files", files), ("functions", functions)):
        if sizes:
            median = statistics.median(size.lines for size in sizes)
            print(f"{len(sizes)} {what}, median {median:g} lines")
    too_big = [size for size in files + functions if size.lines > size.limit]
    for size in too_big:
        print(f"{size.place}: {size.lines} lines, at most {size.limit} are allowed")
    return 1 if too_big else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
