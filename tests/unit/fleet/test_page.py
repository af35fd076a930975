"""`docs/many_machines.md`: its snippets run on a cluster, its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.fleet.conftest import RayCluster
from typer.testing import CliRunner

from tilewright.cli import app

PAGE = Path(__file__).parents[3] / "docs" / "many_machines.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_snippets_run(ray_cluster: RayCluster) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(compile("\n".join(snippets), str(PAGE), "exec"), names)
    assert len(names["database"].get_all_tuning_records()) == 4  # type: ignore[attr-defined]


def test_the_commands_of_the_page_exist() -> None:
    commands = re.findall(r"^tilewright (\S+) .*?(--\w+)", TEXT, re.MULTILINE)
    assert {command for command, _ in commands} == {"tune", "rpc-tracker", "rpc-server"}
    for command, option in commands:
        shown = CliRunner().invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert option in shown.output
