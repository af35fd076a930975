"""Expected outputs kept as text; `pytest tests/golden --update-golden` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GoldenCheck = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected texts anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenCheck:
    """`golden("name.txt", text)` compares with the file beside the test."""
    folder = Path(request.path).parent
    # The option is known only when pytest was started on this folder.
    update = bool(request.config.getoption("--update-golden", default=False))

    def check(name: str, text: str) -> None:
        file = folder / name
        if update:
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file.name} is missing; run pytest with --update-golden"
        assert text == file.read_text(encoding="utf-8")

    return check
