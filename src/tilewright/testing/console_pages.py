"""Runs pages of the manual: every command of theirs, and whether it prints what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPACES = re.compile(r" {2,}")


def run_page(page: Path, command: Callable[..., Any], names: Mapping[str, str]) -> int:
    """Run the blocks of a page in order; how many commands there were.

    Python goes to the file that its first line names. `names` are words of the page that stand for
    others.
    """
    text = page.read_text(encoding="utf-8")
    for name, meant in names.items():
        text = text.replace(name, meant)
    blocks = _BLOCK.findall(text)
    assert {language for language, _ in blocks} <= {"python", "console"}
    return sum(_run_block(language, content, command) for language, content in blocks)


def _run_block(language: str, content: str, command: Callable[..., Any]) -> int:
    if language == "python":
        name = re.match(r"# (\S+\.py)\n", content)
        assert name is not None
        Path(name[1]).write_text(content, encoding="utf-8")
        return 0
    examples = list(_examples(content))
    for line, expected in examples:
        program, *arguments = shlex.split(line)
        assert program == "tilewright"
        failed = bool(expected) and expected[0].startswith("error: ")
        outcome = command(*arguments, status=2 if failed else 0)
        printed = _SPACES.sub(" ", outcome.out + outcome.err)
        assert _pattern(expected).fullmatch(printed), f"{line}\n{printed}"
    return len(examples)


def _examples(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands of a block with the lines they are to print."""
    for part in text.split("$ ")[1:]:
        command, *expected = part.splitlines()
        yield command, expected


def _pattern(expected: list[str]) -> re.Pattern[str]:
    """`...` stands for anything in a line, and alone for any number of lines."""
    lines = []
    for line in expected:
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            parts = _SPACES.sub(" ", line).split("...")
            lines.append(".*?".join(map(re.escape, parts)) + r" *\n")
    return re.compile("".join(lines))
