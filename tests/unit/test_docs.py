"""The documentation keeps up with the code: folders, decisions and links."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from tilewright import meta_schedule as ms
from tilewright.cost_model.base import cost_models
from tilewright.database import databases
from tilewright.features.base import feature_extractors
from tilewright.measure.base import builders, runners
from tilewright.search.base import search_strategies
from tilewright.space.base import mutators, postprocs, schedule_rules, space_generators
from tilewright.tune import abilities
from tilewright.tune.callbacks import measure_callbacks
from tilewright.tune.policy.base import task_schedulers

FAMILIES = (
    builders, cost_models, databases, feature_extractors, measure_callbacks, mutators, postprocs,
    runners, schedule_rules, search_strategies, space_generators, task_schedulers,
)  # fmt: skip
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"\]\(([^)#]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = _CODE.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.findall(prose):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_architecture_lists_every_folder() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    packages = ROOT / "src" / "tilewright"
    folders = {path.parent.name for path in packages.glob("*/__init__.py")}
    missing = [name for name in sorted(folders) if f"`{name}/`" not in text]
    assert missing == []


def test_files_of_the_architecture_exist() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    walk = text[text.index("## A candidate's way") : text.index("## Folders from the bottom up")]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", walk)
    assert len(named) > 30
    missing = [name for name in named if not (ROOT / "src" / "tilewright" / name).exists()]
    assert missing == []


def test_layers_of_the_architecture_are_those_of_the_contract() -> None:
    written = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^layers = (\[.*?^\])", written, re.MULTILINE | re.DOTALL)
    assert found is not None
    layers = reversed(ast.literal_eval(found[1]))
    expected = [(name, n) for n, layer in enumerate(layers) for name in re.findall(r"\w+", layer)]
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \| (\d+) \|", text, re.MULTILINE)
    assert [(name, int(number)) for name, number in rows] == expected


def test_families_are_listed_as_they_are() -> None:
    rows = re.findall(
        r"^\| [a-z -]+ \| `ms\.(\w+)` \(`(\w+)`\) \| `([\w.]+)` \| `(\w+)` \|$",
        (DOCS / "extending.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    groups = {group for _, _, group, _ in rows}
    assert groups == {family.group for family in FAMILIES}
    for contract, tvm_name, group, suite in rows:
        module = getattr(ms, group.removeprefix("tilewright."))
        assert getattr(module, tvm_name) is getattr(ms, contract)
        assert importlib.import_module(f"tilewright.testing.conformance.{suite}").CHECKS


def test_abilities_are_listed_as_they_are() -> None:
    rows = re.findall(
        r"^\| `([A-Z]\w+)` \| [a-z ,]+ \| `(\w+)(?:\([a-z_, ]*\))?` \|",
        (DOCS / "extending.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    protocols = {
        name: [each for each in (*vars(kind), *kind.__annotations__) if not each.startswith("_")]
        for name, kind in vars(abilities).items()
        if isinstance(kind, type) and kind.__module__ == abilities.__name__
    }
    assert {name: [method] for name, method in rows} == protocols


def test_every_decision_is_listed() -> None:
    index = (DOCS / "design" / "README.md").read_text(encoding="utf-8")
    for page in sorted((DOCS / "design").glob("0*.md")):
        assert page.name in index
        title = page.read_text(encoding="utf-8").splitlines()[0].split(": ", 1)[1]
        assert title in index or page.name.startswith("0000"), title
