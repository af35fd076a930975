from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.config import Settings, child_environ, settings, variables
from tilewright.errors import ConfigError


def test_defaults() -> None:
    made = Settings.from_environ({"HOME": "/nobody"})
    assert made.num_threads is None
    assert made.cache_dir is None
    assert made.spin_us == 200
    assert made.no_color is False


def test_values_are_typed(tmp_path: Path) -> None:
    made = Settings.from_environ(
        {
            "TILEWRIGHT_NUM_THREADS": "4",
            "TILEWRIGHT_CACHE_DIR": str(tmp_path),
            "TILEWRIGHT_SPIN_US": "0",
            "TILEWRIGHT_NO_COLOR": "yes",
        }
    )
    assert made == Settings(num_threads=4, cache_dir=tmp_path, spin_us=0, no_color=True)


def test_no_color_of_the_terminal_counts() -> None:
    assert Settings.from_environ({"NO_COLOR": "1"}).no_color
    assert not Settings.from_environ({"NO_COLOR": "1", "TILEWRIGHT_NO_COLOR": "0"}).no_color


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NUM_THREADS", "0", "expected a whole number of at least 1"),
        ("NUM_THREADS", "many", "expected a whole number of at least 1"),
        ("SPIN_US", "-1", "expected a whole number of microseconds, 0 or more"),
        ("NO_COLOR", "maybe", "expected 1 or 0 (or true/false, yes/no, on/off)"),
        ("CACHE_DIR", " ", "expected the path of a directory"),
        ("CACHE_DIR", __file__, "expected a directory, but a file stands there"),
    ],
)
def test_a_bad_value_names_the_variable(variable: str, value: str, message: str) -> None:
    name = f"TILEWRIGHT_{variable}"
    with pytest.raises(ConfigError) as caught:
        Settings.from_environ({name: value})
    assert str(caught.value) == f"{name}={value!r}: {message}"


def test_a_misspelt_variable_is_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.from_environ({"TILEWRIGHT_NUM_THREAD": "2"})
    assert str(caught.value) == (
        "unknown environment variable TILEWRIGHT_NUM_THREAD; did you mean 'TILEWRIGHT_NUM_THREADS'?"
    )


def test_every_variable_is_documented() -> None:
    listed = variables()
    assert [item.name for item in listed][:2] == ["TILEWRIGHT_NUM_THREADS", "TILEWRIGHT_CACHE_DIR"]
    assert all(item.help for item in listed)


def test_settings_are_read_once() -> None:
    assert settings() is settings()


def test_environment_of_child_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert child_environ("first")["PYTHONPATH"] == "first"
    monkeypatch.setenv("PYTHONPATH", "second")
    path = f"first{os.pathsep}second"
    assert child_environ("first") == {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
