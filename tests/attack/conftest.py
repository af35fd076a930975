"""The attack group: hostile input must give a right answer or one typed error.

Every test of this folder gets the marker `attack`; nothing in it depends on the machine, its speed
or its number of cores. The form:

- One file an attacker's means: `test_stored_rows.py` (damaged databases), `test_hostile_ir.py`, ...
- An outcome is a correct result or a `TilewrightError`. Any other exception, an abort of the
  process, or a run without end is a finding. What may abort or hang runs in a child process:
  `run_in_child` gives its outcome.
- What takes more than a few seconds also carries `slow`: CI (`make test`) runs the rest, `make
  fuzz` runs everything, `make attack` runs everything of this folder.
- Random input: take the seeds of the fixture `attack_seeds`. CI always sees the same few, `make
  fuzz` (`--hypothesis-profile=fuzz`) sees many fresh ones; a failing test shows its seed.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_CI_SEEDS = range(8)
_FUZZ_SEEDS = 200

Outcome = subprocess.CompletedProcess[str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder belong to the group."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.attack)


@pytest.fixture
def attack_seeds(request: pytest.FixtureRequest) -> list[int]:
    """Seeds of random attacks: the same few in CI, many fresh ones in `make fuzz`."""
    if request.config.getoption("--hypothesis-profile") != "fuzz":
        return list(_CI_SEEDS)
    return [random.randrange(2**32) for _ in range(_FUZZ_SEEDS)]


@pytest.fixture
def run_in_child() -> Callable[[str], Outcome]:
    """Runs Python source in a process of its own, where an abort or a hang can be seen."""

    def run(source: str, timeout: float = 120) -> Outcome:
        return subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
