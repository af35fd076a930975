"""Families: members by name, ours and those of installed packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import RegistryError
from tilewright.support.plugins import Family

METADATA = "Metadata-Version: 2.1\nName: colours\nVersion: 1.0\n"
ENTRY_POINTS = """
[tilewright.test_colour]
green = colours:Green
red = colours:Other
broken = colours.not_there:Anything
wrong = colours:Missing
"""


class Red:
    def __init__(self, shade: int = 0) -> None:
        self.shade = shade


@pytest.fixture
def family() -> Family[Any]:
    made: Family[Any] = Family("colour", "tilewright.test_colour")
    made.register("red")(Red)
    return made


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install` leaves a package that offers members."""
    described = tmp_path / "colours-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(METADATA)
    (described / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "colours.py").write_text("class Green: pass\nclass Other: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "colours", raising=False)


def test_our_own(family: Family[Any]) -> None:
    assert list(family) == ["red"]
    assert "red" in family
    assert family.create("red", shade=3).shade == 3
    family.register("red")(Red)  # a module that is imported twice
    with pytest.raises(RegistryError, match="colour 'red' is registered already"):
        family.register("red")(int)


def test_unknown_names(family: Family[Any]) -> None:
    with pytest.raises(RegistryError) as caught:
        family.create("blue")
    assert str(caught.value) == "unknown colour 'blue'; known: red"


@pytest.mark.usefixtures("_package")
def test_those_of_installed_packages(family: Family[Any]) -> None:
    assert list(family) == ["broken", "green", "red", "wrong"]
    assert "green" in family
    assert type(family.create("green")).__name__ == "Green"
    assert family.get("red") is Red  # ours come first


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "broken",
            "colour 'broken' (colours.not_there:Anything, of an installed package) cannot be "
            "loaded: ModuleNotFoundError: No module named 'colours.not_there'; 'colours' is not a "
            "package",
        ),
        (
            "wrong",
            "colour 'wrong' (colours:Missing, of an installed package) cannot be loaded: "
            "AttributeError: module 'colours' has no attribute 'Missing'",
        ),
    ],
)
def test_packages_that_do_not_work(family: Family[Any], name: str, message: str) -> None:
    with pytest.raises(RegistryError) as caught:
        family.create(name)
    assert str(caught.value) == message
