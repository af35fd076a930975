"""Every environment variable Tilewright reads, declared once.

A variable is one field of `Settings`; its name is `TILEWRIGHT_` plus the field in upper case.
Nothing else in the package looks at the environment: code asks `settings()`, which reads it once,
when first needed. Tests build `Settings.from_environ({...})` instead of changing the process.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tilewright.errors import ConfigError
from tilewright.support.suggestions import did_you_mean

PREFIX = "TILEWRIGHT_"

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError("expected 1 or 0 (or true/false, yes/no, on/off)")
    return word in _TRUE


def _parse_count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("expected a whole number of at least 1")
    return int(text)


def _parse_microseconds(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("expected a whole number of microseconds, 0 or more")
    return int(text)


def _parse_directory(text: str) -> Path:
    if not text.strip():
        raise ValueError("expected the path of a directory")
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise ValueError("expected a directory, but a file stands there")
    return path


def _declared(parse: Callable[[str], object], help_text: str) -> dict[str, Any]:
    return {"parse": parse, "help": help_text}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for; every field is one variable."""

    num_threads: int | None = field(
        default=None,
        metadata=_declared(_parse_count, "threads of the CPU pool; unset: one per usable core"),
    )
    cache_dir: Path | None = field(
        default=None,
        metadata=_declared(
            _parse_directory, "folder where compiled code is kept between runs; unset: nowhere"
        ),
    )
    spin_us: int = field(
        default=200,
        metadata=_declared(
            _parse_microseconds, "microseconds that an idle worker thread spins before it sleeps"
        ),
    )
    no_color: bool = field(
        default=False,
        metadata=_declared(_parse_bool, "1 prints without colours, as the variable NO_COLOR does"),
    )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings from `environ`; a bad value or an unknown variable is an error."""
        known = {PREFIX + item.name.upper(): item for item in fields(cls)}
        values: dict[str, Any] = {}
        for variable, text in environ.items():
            if not variable.startswith(PREFIX):
                continue
            if variable not in known:
                hint = did_you_mean(variable, known)
                raise ConfigError(f"unknown environment variable {variable}{hint}")
            item = known[variable]
            try:
                values[item.name] = item.metadata["parse"](text)
            except ValueError as error:
                raise ConfigError(f"{variable}={text!r}: {error}") from None
        if environ.get("NO_COLOR"):
            values.setdefault("no_color", True)
        return cls(**values)


def no_color() -> bool:
    """True if nothing may be coloured; also where the settings make no sense."""
    try:
        return settings().no_color
    except ConfigError:
        return True  # `doctor` must be able to say what is wrong with them


def user_cache_dir() -> Path:
    """Where small things that can be found out again are kept, whether code is kept or not."""
    base = os.environ.get("XDG_CACHE_HOME")
    default = (Path(base) if base else Path.home() / ".cache") / "tilewright"
    return settings().cache_dir or default


def thread_limit() -> int | None:
    """How many threads may run, if that was said; also where other settings make no sense."""
    try:
        return settings().num_threads
    except ConfigError:
        return None


@dataclass(frozen=True, slots=True)
class Variable:
    """One declared environment variable, for listings."""

    name: str
    help: str


def variables() -> tuple[Variable, ...]:
    """All variables, in the order of declaration."""
    return tuple(
        Variable(PREFIX + item.name.upper(), item.metadata["help"]) for item in fields(Settings)
    )


def child_environ(python_path: str) -> dict[str, str]:
    """The environment for a Python process of ours, which finds modules in `python_path` first.

    What lies in the current folder must not be taken for a module of the standard library.
    """
    inherited = os.environ.get("PYTHONPATH")
    path = f"{python_path}{os.pathsep}{inherited}" if inherited else python_path
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def environ_for_gpu(number: int) -> dict[str, str]:
    """What lets a child see one of the GPUs that this process sees, as its first and only one."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return {"CUDA_VISIBLE_DEVICES": given.split(",")[number] if given else str(number)}


def tracker_variable(field: str) -> str:
    """TVM's variable for the host, the port or the key of its tracker; empty if it is not set."""
    return os.environ.get(f"TVM_TRACKER_{field.upper()}", "")


def ray_token() -> str | None:
    """The token that Ray shows to clusters; empty if it is in a file, None if it shows none."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return None
    return os.environ.get("RAY_AUTH_TOKEN", "")


@functools.cache
def settings() -> Settings:
    """The settings of this process, read when first asked for."""
    return Settings.from_environ(os.environ)
