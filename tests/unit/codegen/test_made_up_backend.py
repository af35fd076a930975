"""A backend that nothing in Tilewright knows of: found, built with, run, timed and tuned with."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.registry import BACKENDS, find_backend, has_backend
from tilewright.errors import RegistryError, RuntimeFailure
from tilewright.meta_schedule import tune_tir
from tilewright.meta_schedule.database import MemoryDatabase
from tilewright.script import tir as T

SOURCE = Path(__file__).with_name("interpreting_backend.py")
ENTRY_POINTS = """
[tilewright.backend]
interpreted = interpreting_backend:InterpretingBackend

[tilewright.target_kind]
interpreted = interpreting_backend:make_kind
"""


@T.prim_func
def matmul(a: T.handle, B: T.Buffer((4, 6), "float32"), c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32")
    C = T.match_buffer(c, (n, 6), "float32")
    for i, j, k in T.grid(n, 6, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]


@T.prim_func
def scaled(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), factor: T.float32):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * factor


@T.prim_func
def plus_one(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend as a package that is installed for this process and for its children."""
    described = tmp_path / "interpreting_backend-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: interpreting-backend\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / SOURCE.name).write_text(SOURCE.read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(tmp_path), *([inherited] if inherited else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def test_the_file_is_short() -> None:
    assert len(SOURCE.read_text().splitlines()) < 120


def test_it_is_found_by_the_kind_of_the_target() -> None:
    assert has_backend("interpreted")
    assert "interpreted" in tw.Target.list_kinds()
    assert find_backend("interpreted").kind == "interpreted"
    assert tw.Target("interpreted -num-cores=2").num_cores == 2


def test_it_builds_and_runs() -> None:
    module = tw.build(matmul, "interpreted")
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 4), "float32"), rng.random((4, 6), "float32")
    c = np.zeros((3, 6), "float32")
    module(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-6)
    assert module.artifact is not None
    assert module.artifact.kind == "interpreted"
    assert module.get_source().startswith("{")
    assert "matmul" in module.get_source("script")
    assert module.time_evaluator("matmul", number=2)(a, b, c).mean > 0


def test_scalars() -> None:
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    tw.build(scaled, "interpreted")(a, b, 1.5)
    np.testing.assert_array_equal(b, a * np.float32(1.5))


def test_its_stages() -> None:
    stages = tw.build(plus_one, "interpreted", stages=True)
    names = [stage.name for stage in stages]
    assert names[-2:] == ["interpreted", "machine-code"]
    assert "VectorizeLoop" not in names
    lowered = tw.lower(plus_one, "interpreted", stages=True)
    assert [stage.name for stage in lowered] == names[:-2]


def test_what_it_does_not_do(tmp_path: Path) -> None:
    module = tw.build(plus_one, "interpreted")
    with pytest.raises(RuntimeFailure, match=r"cannot export x\.so: expected a name that ends in"):
        module.export_library(tmp_path / "x.so")


def test_it_tunes(tmp_path: Path) -> None:
    database = MemoryDatabase()
    tune_tir(
        plus_one,
        "interpreted -num-cores=1",
        str(tmp_path / "work"),
        max_trials_global=4,
        num_trials_per_iter=2,
        database=database,
        seed=1,
    )
    records = database.get_all_tuning_records()
    assert records
    assert all(record.run_secs and min(record.run_secs) > 0 for record in records)
    a, b = np.arange(256, dtype="float32").reshape(16, 16), np.zeros((16, 16), "float32")
    with database:
        tw.build(plus_one, "interpreted -num-cores=1")(a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_a_kind_is_registered_once() -> None:
    first = find_backend("llvm")
    with pytest.raises(RegistryError, match="backend 'llvm' is registered already"):
        BACKENDS.register("llvm")(type("Another", (type(first),), {}))
