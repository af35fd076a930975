"""`docs/vta.md`: its program runs, and gives what a sum of 64 ones gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "vta.md"


def test_the_program_of_the_page_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert (names["out"] == 64 >> 8).all()
    assert names["seconds"] > 0
