"""Where schedules come from, tuning, and functions that travel."""

from __future__ import annotations

import copy
import logging
import multiprocessing
import pickle
import re
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.database import Database, MemoryDatabase, SQLiteDatabase
from tilewright.errors import ArgumentError, DatabaseError, TuneError
from tilewright.ir import PrimFunc
from tilewright.jit import JitFunction
from tilewright.jit.schedules import parse_tuning
from tilewright.records import normalize_mod
from tilewright.tune import tune_tir


def product(n: Any = 16) -> PrimFunc:
    a, b = te.placeholder((n, 24), name="A"), te.placeholder((24, 8), name="B")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, dtype="float32")


A, B = floats(16, 24), floats(24, 8)
Tuning: TypeAlias = dict[str, Any]
FEW: Tuning = {"max_trials_global": 2, "num_trials_per_iter": 2, "seed": 1}


@pytest.fixture(scope="module")
def few(workers: Tuning) -> Tuning:
    """Measured by processes that other tests use, too."""
    return {**FEW, **workers}


@pytest.fixture(scope="module")
def tuned(few: Tuning) -> MemoryDatabase:
    database = tune_tir(product(), "llvm", database="memory", console=False, **few)
    assert isinstance(database, MemoryDatabase)
    return database


def best(database: Database, func: PrimFunc) -> str:
    found = database.query_ir_module(normalize_mod(func), tw.Target("llvm"), "main")
    assert found is not None
    return str(found["main"].body)


def check(f: JitFunction) -> None:
    np.testing.assert_allclose(f(A, B), A @ B, rtol=1e-5)


def body(f: JitFunction, **sizes: int) -> str:
    return str(f.scheduled(**sizes)["main"].body)


# --- where schedules come from ------------------------------------------------------------------


def test_without_a_search() -> None:
    f = tw.compile(product())
    check(f)
    assert body(f) == str(tw.meta_schedule.default_schedule(product()).mod["main"].body)


def test_the_best_of_a_database(tuned: MemoryDatabase) -> None:
    for f in (tw.compile(product(), database=tuned), _compiled_inside(tuned)):
        check(f)
        assert body(f) == best(tuned, product())
    late = tw.compile(product())
    with tuned:
        check(late)
    assert body(late) == best(tuned, product())


def _compiled_inside(database: Database) -> JitFunction:
    with database:
        return tw.compile(product())


def test_a_program_that_is_not_known_is_no_cause_for_warnings(
    tuned: MemoryDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    f = tw.compile(product(17), database=tuned)
    np.testing.assert_allclose(f(floats(17, 24), B), floats(17, 24) @ B, rtol=1e-5)
    assert caplog.records == []


def test_a_database_by_its_path(tmp_path: Path, few: Tuning) -> None:
    path = tmp_path / "tuned.db"
    f = tw.compile(product(), tune=few, database=path)
    check(f)
    with SQLiteDatabase(path) as database:
        assert body(f) == best(database, product())
        count = len(database)
    again = tw.compile(product(), tune=few, database=str(path))
    check(again)
    assert body(again) == body(f)
    with SQLiteDatabase(path) as database:
        assert len(database) == count  # what is known is not tuned again
    missing = tw.compile(product(), database=tmp_path / "missing.db")
    with pytest.raises(DatabaseError, match=r"missing\.db"):
        check(missing)
    assert not (tmp_path / "missing.db").exists()


# --- tuning -------------------------------------------------------------------------------------


def test_tuning_at_the_first_call(few: Tuning) -> None:
    database = MemoryDatabase()
    f = tw.compile(product(), tune=few, database=database)
    assert len(database) == 0
    check(f)
    assert len(database) > 0
    assert body(f) == best(database, product())


def test_tuning_each_size_that_gets_a_kernel(few: Tuning) -> None:
    database = MemoryDatabase()
    f = tw.compile(product(te.var("n")), tune=few, database=database, specialize=1)
    check(f)
    assert body(f, n=16) == best(database, product())
    count = len(database)
    np.testing.assert_allclose(f(A[:5], B), A[:5] @ B, rtol=1e-5)
    assert f.sizes() == [{"n": 16}, {}]
    assert len(database) == count


def test_tuning_on_demand(few: Tuning) -> None:
    f = tw.compile(product())
    check(f)
    assert f.tune(few) is f
    check(f)
    symbolic = tw.compile(product(te.var("n")))
    message = (
        "tune(): main() has not been called yet, so its sizes are not known; name them: tune(n=...)"
    )
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        symbolic.tune(few)
    symbolic.tune(few, n=16)
    check(symbolic)
    symbolic.tune(few)
    with pytest.raises(ArgumentError, match=r"^tune\(None\): say how long to tune, as in tune"):
        symbolic.tune(None)


def test_what_cannot_be_tuned_is_used_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    func = tw.script.from_source(
        "@T.prim_func\ndef f(x: T.Buffer((4,)), s: T.float32, y: T.Buffer((4,))):\n"
        "    for i in T.serial(4):\n        with T.block('y'):\n"
        "            vi = T.axis.spatial(4, i)\n            y[vi] = x[vi] * s\n"
    )
    assert isinstance(func, PrimFunc)
    with caplog.at_level(logging.WARNING, "tilewright.jit"):
        assert tw.compile(func, tune=FEW)(np.ones(4, "float32"), 3).tolist() == [3, 3, 3, 3]
    (record,) = caplog.records
    assert record.getMessage() == (
        "parameter 's' of function 'f' is a scalar; only functions of buffers with constant shapes "
        "can be tuned"
    )


def test_how_long_to_tune() -> None:
    assert parse_tuning(None) is None
    assert parse_tuning(False) is None
    assert parse_tuning(10) == {"max_trials_global": 10, "console": False}
    assert parse_tuning("1m30s") == {"budget_secs": 90.0, "console": False}
    assert parse_tuning({"budget_secs": 1, "console": True}) == {"budget_secs": 1, "console": True}
    usual = parse_tuning(True)
    assert usual == {"max_trials_global": 64, "budget_secs": 60.0, "console": False}


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ("soon", "tune soon: expected a time such as 90s, 10m or 1h30m"),
        *[
            (
                wrong,
                f"tune={wrong}: expected a number of trials, a time such as '10s', True, or a "
                "dictionary of options for tune_tir",
            )
            for wrong in (0, -3, 2.5)
        ],
        (
            {"max_trials": 3},
            "tune={'max_trials': ...}: tune_tir has no such option; did you mean "
            "'max_trials_global'?",
        ),
        ({"database": "a.db"}, "tune={'database': ...}: give database to compile() itself"),
    ],
)
def test_mistakes_in_tune(tune: Any, message: str) -> None:
    with pytest.raises(TuneError, match=f"^{re.escape(message)}$"):
        tw.compile(product(), tune=tune)


# --- travelling ---------------------------------------------------------------------------------


def refuse(*args: Any, **options: Any) -> Any:
    raise AssertionError("the schedule was chosen again")


def test_pickled_functions_keep_their_schedules(
    tuned: MemoryDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = tw.compile(product(te.var("n")), database=tuned)
    check(f)
    for again in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        with monkeypatch.context() as patch:
            patch.setattr("tilewright.jit.schedules.default_schedule", refuse)
            patch.setattr(MemoryDatabase, "query_schedule", refuse)
            assert again.sizes() == []
            check(again)
        assert body(again, n=16) == best(tuned, product())
        np.testing.assert_allclose(again(A[:3], B), A[:3] @ B, rtol=1e-5)


def test_schedules_of_another_machine_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tw.compile(product())
    check(f)
    data = pickle.dumps(f)
    monkeypatch.setattr(tw.Target, "fingerprint", property(lambda self: "another machine"))
    again = pickle.loads(data)
    chosen: list[Any] = []
    default = tw.meta_schedule.default_schedule

    def choosing(*args: Any) -> Any:
        chosen.append(args)
        return default(*args)

    monkeypatch.setattr("tilewright.jit.schedules.default_schedule", choosing)
    check(again)
    assert len(chosen) == 1


def test_everything_that_is_pickled() -> None:
    bound = tw.compile(product()).bind(B=B)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(bound))(A), A @ B, rtol=1e-5)
    module = tw.compile(tw.IRModule({"one": product(), "two": product(3)}))
    again = pickle.loads(pickle.dumps(module))
    check(again.one)
    assert again.two(A[:3], B).shape == (3, 8)
    with pytest.raises(AttributeError):
        again.three


def test_another_process(tmp_path: Path) -> None:
    f = tw.compile(product(te.var("n")), database=tmp_path / "tuned.db", tune=FEW)
    expected = f(A, B)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.array_equal(pool.apply(f, (A, B)), expected)
