"""The group itself: its marker, its seeds and its child processes."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest


def test_every_test_of_the_folder_carries_the_marker(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("attack") is not None


def test_a_child_shows_an_abort_instead_of_taking_the_tests_with_it(
    run_in_child: Callable[[str], CompletedProcess[str]],
) -> None:
    assert run_in_child("import os; os.abort()").returncode == -6


def test_seeds_differ(attack_seeds: list[int]) -> None:
    assert len(set(attack_seeds)) == len(attack_seeds) >= 8
