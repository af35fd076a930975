"""docs/cli.md: every command is run, and prints what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPACES = re.compile(r" {2,}")


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


def test_commands_print_what_the_page_shows(command: Any, made_up_runner: Any) -> None:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert {language for language, _ in blocks} == {"python", "console"}
    run = 0
    for language, text in blocks:
        if language == "python":
            name = re.match(r"# (\S+\.py)\n", text)
            assert name is not None
            Path(name[1]).write_text(text, encoding="utf-8")
            continue
        for line, expected in _examples(text):
            program, *arguments = shlex.split(line)
            assert program == "tilewright"
            failed = bool(expected) and expected[0].startswith("error: ")
            outcome = command(*arguments, status=2 if failed else 0)
            printed = _SPACES.sub(" ", outcome.out + outcome.err)
            assert _pattern(expected).fullmatch(printed), f"{line}\n{printed}"
            run += 1
    assert run >= 18
