"""Settings that all tests share."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tilewright.measure import LocalBuilder, LocalRunner
from tilewright.native.cuda_driver import why_missing
from tilewright.testing import fake_gpu

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


class _HiddenGpu:
    """The GPU of this machine: only tests that are marked to need it find it.

    So all others say the same on every machine; what they want to see of a GPU is `fake_gpu`.
    """

    def __init__(self) -> None:
        self._visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._hidden: contextlib.ExitStack | None = None
        self.hide(from_children=False)  # the workers of pytest-xdist are such, and look themselves

    @functools.cached_property
    def why_missing(self) -> str:
        """The reason why there is none; empty if there is one."""
        self.show()
        return why_missing(0)

    def hide(self, *, from_children: bool = True) -> None:
        """From this process, and from those that tests start."""
        if self._hidden is None:
            self._hidden = contextlib.ExitStack()
            self._hidden.enter_context(fake_gpu.installed(fake_gpu.NoDriver()))
        if from_children:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""

    def show(self) -> None:
        """As it is."""
        if self._hidden is not None:
            self._hidden.close()
            self._hidden = None
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if self._visible is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self._visible


_gpu = _HiddenGpu()


# Emulated and compiled kernels are slow: of tests with many variants, these run one in three, of
# those with very many one in five (odd numbers: variants often come in pairs and fours).
_SAMPLED = (
    "numeric/intrin/test_x86_pack.py",
    "numeric/space/test_own_rules.py",
    "unit/lowering/gpu/",
    "unit/codegen/cuda/",
    "unit/space/rules/test_tile_rules.py",
    "unit/space/rules/test_tensor_padding.py",
    "unit/space/rules/test_tensor_tiling.py",
    "unit/space/test_product_types.py",
    "numeric/topi/test_operators_on_gpu.py",
)
_MANY, _VERY_MANY = 5, 20


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most variants of slow tests as slow; `make fuzz` runs all of them."""
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        path, _, name = item.nodeid.partition("::")
        if path.removeprefix("tests/").startswith(_SAMPLED) and "[" in name:
            variants.setdefault(f"{path}::{name.partition('[')[0]}", []).append(item)
    for group in variants.values():
        step = 5 if len(group) >= _VERY_MANY else 3 if len(group) >= _MANY else 1
        for number, item in enumerate(group):
            if number % step:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the driver before any test does: once started, it knows the GPUs that it has found.

    What was collected stays: the garbage collector need not look at all of it again and again.
    """
    gc.freeze()
    if any(item.get_closest_marker("cuda") for item in session.items):
        _gpu.why_missing
        _gpu.hide(from_children=False)


def pytest_unconfigure() -> None:
    """Leave everything as it was."""
    _gpu.show()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where TVM or a GPU is missing, skip the tests that are marked to need it."""
    needs_gpu = item.get_closest_marker("cuda") is not None
    if needs_gpu and _gpu.why_missing:
        pytest.skip(f"needs a GPU: {_gpu.why_missing}")
    if needs_gpu:
        _gpu.show()
    else:
        _gpu.hide()
    if item.get_closest_marker("tvm") and not _TVM_PYTHON.exists():
        pytest.skip("TVM is missing: `make bench-env` installs it, or TVM_PYTHON names it")


@pytest.fixture(scope="session")
def workers() -> Iterator[dict[str, Any]]:
    """Options of the tuner: one builder and one runner for all tests that measure kernels."""
    with contextlib.closing(LocalBuilder()) as builder, contextlib.closing(LocalRunner()) as runner:
        yield {"builder": builder, "runner": runner}


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
