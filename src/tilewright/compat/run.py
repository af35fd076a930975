"""Running a script or a module with the names of TVM."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.compat.finder import tvm_imports
from tilewright.errors import ConfigError

USAGE = "expected a script, or -m and the name of a module, and its arguments"

# Arguments that a module gets besides the user's: fixtures that TVM's suites expect.
EXTRA_ARGUMENTS = {"pytest": ("-p", "tilewright.testing.tvm_plugin")}


def run(arguments: Sequence[str]) -> int:
    """Run `script.py ...` or `-m module ...` as Python would; `import tvm` imports us."""
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "-m"):
        raise ConfigError(f"{USAGE}, got {' '.join(arguments) or 'nothing'}")
    with tvm_imports():
        if arguments[0] == "-m":
            _run_module(arguments[1:])
        else:
            _run_script(Path(arguments[0]), arguments[1:])
    return 0


def _run_module(arguments: Sequence[str]) -> None:
    if not arguments:
        raise ConfigError(f"{USAGE}, got only -m")
    name, *rest = arguments
    sys.argv = [name, *EXTRA_ARGUMENTS.get(name, ()), *rest]
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_script(script: Path, arguments: Sequence[str]) -> None:
    if not script.exists():
        raise ConfigError(f"there is no script {str(script)!r}")
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
