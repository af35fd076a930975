"""Scripts and styles travel with the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "src" / "tilewright" / "serve" / "static"


def test_all_files_are_package_data() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^tilewright = \[(.*)\]$", text, re.MULTILINE)
    patterns = re.findall(r'"([^"]+)"', listed)
    for file in STATIC.iterdir():
        name = f"serve/static/{file.name}"
        assert any(fnmatch(name, pattern) for pattern in patterns), name


def test_nothing_is_fetched_from_elsewhere() -> None:
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|url\(|//[a-z]+\.", text), file.name
        for module in re.findall(r'from "\./(.*)"', text):
            assert (STATIC / module).is_file()


@pytest.mark.slow
def test_the_wheel_has_them(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr or "No matching distribution" in done.stderr:
        pytest.skip("there is no pip, or nothing that it could build with")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for file in STATIC.iterdir():
        assert f"tilewright/serve/static/{file.name}" in inside
