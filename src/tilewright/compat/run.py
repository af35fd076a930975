"""Running a script or a module with the names of TVM."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tilewright.compat.finder import tvm_imports
from tilewright.errors import ConfigError

# Arguments that a module gets besides the user's: fixtures that suites for TVM expect.
EXTRA_ARGUMENTS = {"pytest": ("-p", "tilewright.testing.tvm_plugin")}


def run(arguments: Sequence[str]) -> None:
    """Run `script.py ...` or `-m module ...` as Python would; `import tvm` imports us."""
    prepared(arguments)()


def prepared(arguments: Sequence[str]) -> Callable[[], None]:
    """The same in two steps: mistakes in the arguments are found before anything runs."""
    first, *rest = arguments or [""]
    if first == "-m" and rest:
        return lambda: _run_module(rest[0], rest[1:])
    if not first or first.startswith("-"):
        given = " ".join(arguments) or "nothing"
        raise ConfigError(f"expected a script, or -m and the name of a module, got {given}")
    if not Path(first).exists():
        raise ConfigError(f"there is no script {first!r}")
    return lambda: _run_script(Path(first), rest)


def _run_module(name: str, arguments: Sequence[str]) -> None:
    argv = [name, *EXTRA_ARGUMENTS.get(name, ()), *arguments]
    with _as_program(argv, Path.cwd()), tvm_imports():
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_script(script: Path, arguments: Sequence[str]) -> None:
    with _as_program([str(script), *arguments], script.resolve().parent), tvm_imports():
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _as_program(argv: list[str], folder: Path) -> Iterator[None]:
    """Arguments and import path as Python gives them to a program."""
    before = sys.argv, list(sys.path)
    sys.argv = argv
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before
