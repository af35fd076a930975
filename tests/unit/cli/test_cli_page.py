"""Pages with commands: every command is run, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.testing.console_pages import run_page
from tilewright.testing.postgres_server import PostgresServer

DOCS = Path(__file__).parents[3] / "docs"


def test_commands_print_what_the_page_shows(command: Any, made_up_runner: Any) -> None:
    assert run_page(DOCS / "cli.md", command, {}) >= 18


def test_the_page_about_databases(
    command: Any, made_up_runner: Any, postgres: PostgresServer
) -> None:
    url = postgres.new_database(is_empty=True)
    name = url.split("/")[3].split("?")[0]
    names = {"postgresql://db.example/tuning": url, "tuning_": f"{name}_"}
    assert run_page(DOCS / "databases.md", command, names) >= 12
