"""Settings that all tests share."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, settings

# Property tests must give the same verdict on a slow, shared machine as on a fast one.
settings.register_profile(
    "tilewright",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# `make fuzz` looks for new counterexamples instead of repeating the known ones.
settings.register_profile(
    "fuzz", settings.get_profile("tilewright"), derandomize=False, max_examples=2000
)
settings.load_profile("tilewright")


@pytest.fixture(scope="session")
def c_compiler() -> str:
    """A C compiler, for the tests that compile what we print as C."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler on this machine")
    return found
