"""Settings that all tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tilewright.native.cuda_driver import why_missing

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

# Tests leave the user's cache alone; one run shares one with the processes that it starts.
if "XDG_CACHE_HOME" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="tilewright-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

_TVM_PYTHON = Path(
    os.environ.get("TVM_PYTHON", Path(__file__).parents[1] / ".venv-tvm" / "bin" / "python")
)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where TVM or a GPU is missing, skip the tests that are marked to need it."""
    if item.get_closest_marker("tvm") and not _TVM_PYTHON.exists():
        pytest.skip("TVM is missing: `make bench-env` installs it, or TVM_PYTHON names it")
    if item.get_closest_marker("cuda") and why_missing(0):
        pytest.skip(f"needs a GPU: {why_missing(0)}")


@pytest.fixture(scope="session")
def tvm_python() -> Path:
    """The Python that TVM is installed for, for the tests that ask TVM."""
    return _TVM_PYTHON


@pytest.fixture(scope="session")
def c_compiler() -> str:
    """A C compiler, for the tests that compile what we print as C."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler on this machine")
    return found
