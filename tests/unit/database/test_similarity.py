"""The nearest known workload, and what is said of it."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.database import Database, MemoryDatabase, SQLiteDatabase
from tilewright.database.similarity import describe
from tilewright.ir import IRModule
from tilewright.records import FailureKind
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.conformance.database import LLVM, a_record, matmul


def half_matmul(n: int) -> IRModule:
    tensors = te_workload.matmul(n, n, n, "float16", "float16")
    return IRModule({"main": te.create_prim_func(list(tensors))})


def shifted(n: int, by: int, name: str = "main") -> IRModule:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * float(1) + float(0) + (i + by).astype("float32"), "B")
    return IRModule({name: te.create_prim_func([a, b])})


@pytest.fixture(params=["memory", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    if request.param == "memory":
        return MemoryDatabase()
    return SQLiteDatabase(tmp_path_factory.mktemp("similar") / "a.db")


def difference(database: Database, mod: IRModule) -> str | None:
    near = database.nearest_workload(mod)
    return None if near is None else near.difference


def test_names_for_people() -> None:
    assert describe(matmul(8, 16, 32)) == "C 8x16x32"
    assert describe(shifted(7, 1)) == "B 7"
    assert describe(shifted(7, 1, "shift")) == "shift 7"
    assert describe(IRModule({})) == "main"


def test_the_least_different_shape_wins(database: Database) -> None:
    for size in (16, 128, 1024):
        database.commit_workload(matmul(size, size, size))
    assert difference(database, matmul(100, 128, 128)) == (
        "C 128x128x128 is known, 100x128x128 is asked"
    )
    assert difference(database, matmul(2000, 2000, 2000)) == (
        "C 1024x1024x1024 is known, 2000x2000x2000 is asked"
    )
    assert difference(database, shifted(8, 1)) is None


def test_other_types_and_other_numbers(database: Database) -> None:
    database.commit_workload(matmul(16, 16, 16))
    database.commit_workload(shifted(8, 1))
    assert difference(database, half_matmul(16)) == (
        "C 16x16x16 is known, C 16x16x16 is asked; they have the same blocks but compute something "
        "else or on other types"
    )
    assert difference(database, shifted(8, 5)) == ("B 8 is known, but in the one asked for 1 is 5")
    assert difference(database, shifted(9, 1, "shift")) == "B 8 is known, shift 9 is asked"
    assert difference(database, shifted(8, 1, "shift")) == (
        "B 8 is known, the same under another name"
    )


def test_misses(database: Database) -> None:
    workload, target = database.commit_workload(matmul(16, 16, 16)), Target(LLVM)
    assert database.explain_miss(workload.mod, target) == (
        "C 16x16x16 is known, but no candidate of it was measured; `tilewright space why` says "
        "what there is"
    )
    elsewhere = Target("llvm -mcpu=cascadelake")
    database.commit_tuning_record(a_record(workload, 1.0, target=elsewhere))
    assert database.explain_miss(workload.mod, Target("llvm -mcpu=haswell")) == (
        "C 16x16x16 was tuned, but for other targets than llvm -keys=cpu -mcpu=haswell: "
        "llvm -keys=cpu -mcpu=cascadelake"
    )
    assert database.explain_miss(shifted(8, 1), target) == (
        "B 8 is not in the database, and nothing like it"
    )


@pytest.mark.parametrize(
    ("failures", "text"),
    [
        (
            ["wrong_result", "build_error"],
            "none of its candidates worked (1 wrong_result, 1 build_error)",
        ),
        (
            ["build_error", "timeout"],
            "none of its candidates worked (1 build_error, 1 timeout); tune it again, with more "
            "time or memory",
        ),
    ],
)
def test_tuning_again_is_said_only_where_it_can_help(
    database: Database, failures: list[str], text: str
) -> None:
    workload = database.commit_workload(matmul(16, 16, 16))
    for number, failure in enumerate(failures):
        record = a_record(workload, 1e10, seed=number + 1, failure=FailureKind(failure))
        database.commit_tuning_record(record)
    assert database.explain_miss(workload.mod, Target(LLVM)) == f"C 16x16x16 is known, but {text}"
