"""The pages on schedule primitives are complete and up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.schedule.conditions.checks import LoopHasAnnotations
from tilewright.schedule.primitives.loop_kind import UnknownThreadAxis
from tilewright.schedule.trace.instruction import get_primitive

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools" / "make_primitive_docs.py"
    spec = importlib.util.spec_from_file_location("make_primitive_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_primitive_has_an_example(tool: ModuleType) -> None:
    examples = tool.load_examples().EXAMPLES
    missing = {p.method for p in tool.built_in_primitives()} - set(examples)
    assert not missing, "add examples to docs/primitives/examples.py"
    assert set(examples) == {p.method for p in tool.built_in_primitives()}


def test_pages_are_up_to_date(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    status = tool.main(["--check"])
    assert status == 0, f"run tools/make_primitive_docs.py\n{capsys.readouterr().out}"
    pages = {path.name for path in (ROOT / "docs" / "primitives").glob("*.md")}
    assert pages == set(tool.make_pages())


def test_conditions_are_those_the_code_can_meet(tool: ModuleType) -> None:
    split = tool.reachable_errors(get_primitive("Split").run)
    assert LoopHasAnnotations in split
    assert UnknownThreadAxis not in tool.reachable_errors(get_primitive("Parallel").run)
    assert UnknownThreadAxis in tool.reachable_errors(get_primitive("Bind").run)
