"""`docs/datasets.md`: its functions run, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.dataset import Dataset, measure_candidates, pretrain
from tilewright.dataset.measuring import MeasureOptions

PAGE = Path(__file__).parents[3] / "docs" / "datasets.md"


def test_the_functions_of_the_page_run(sampled: Dataset, tmp_path: Path) -> None:
    for task in sampled.tasks()[1:]:
        sampled.candidates_file(task).unlink()
    measure_candidates(sampled.folder, options=MeasureOptions(), tell=lambda text: None)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    names["tune_from_records"](str(sampled.folder))  # type: ignore[operator]
    path = tmp_path / "model.npz"
    pretrain(sampled, path=path)
    names["load_pretrained"](path)  # type: ignore[operator]


def test_the_commands_of_the_page_exist() -> None:
    commands = re.findall(r"^tilewright dataset (\S+)", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(commands) == 5
    for command in commands:
        assert CliRunner().invoke(app, ["dataset", command, "--help"]).exit_code == 0
