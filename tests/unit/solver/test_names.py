"""Solvers are known by name to whoever asks for one."""

from __future__ import annotations

import subprocess
import sys


def printed_by(code: str) -> str:
    """What a process of its own prints: here other tests have imported all solvers."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_solvers_are_known_without_importing_them() -> None:
    asked = "from tilewright.solver.base import Solver; print(type(Solver.create()).__name__)"
    assert printed_by(asked) == "ArraySolver\n"


def test_ortools_is_imported_when_its_solver_is_made() -> None:
    assert printed_by("import sys, tilewright.solver; print('ortools' in sys.modules)") == "False\n"
