# mypy: disable-error-code="valid-type, no-untyped-def"
"""Programs that cannot be tuned are told so at once, with what to do about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.errors import DatabaseError, RegistryError, TargetError, TuneError
from tilewright.ir import IRModule, PrimFunc
from tilewright.script import tir as T
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import matmul, tile_two
from tilewright.tune import TuneContext, tune_tasks, tune_tir
from tilewright.tune.api import make_database
from tilewright.tune.checks import check_can_be_tuned


@T.prim_func
def any_size(a: T.handle, b: T.handle) -> None:
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0


@T.prim_func
def with_a_scalar(n: T.int32, B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.float32(n)


@T.prim_func
def plain_loops(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        B[i] = A[i] + 1.0


@T.prim_func
def all_opaque(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block("copy"):
            vi = T.axis.opaque(16, i)
            B[vi] = A[vi]


@T.prim_func
def without_iterators(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block():
            T.reads(A[i])
            T.writes(B[i])
            B[i] = A[i]


@T.prim_func
def once(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")) -> None:
    with T.block("B"):
        B[0] = A[0] + 1.0


@T.prim_func
def half_opaque(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    C = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("copy"):
            vi = T.axis.opaque(16, i)
            C[vi] = A[vi]
    for i in range(16):
        with T.block("more"):
            vi = T.axis.spatial(16, i)
            B[vi] = C[vi] + 1.0


@T.prim_func
def vectors(A: T.Buffer((16,), "float32x4"), B: T.Buffer((16,), "float32x4")) -> None:
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]


def tune(mod: Any, target: Any = "llvm", **options: Any) -> Any:
    """Nothing is built before a mistake is found: the fake would show it."""
    builder = FakeBuilder()
    defaults = {"max_trials_global": 4, "console": False, "runner": FakeRunner()}
    try:
        return tune_tir(mod, target, **{**defaults, "builder": builder, **options})
    finally:
        assert builder.built == []


@pytest.mark.parametrize(
    ("func", "text"),
    [
        (
            with_a_scalar,
            "parameter 'n' of function 'main' is a scalar; only functions of buffers with constant "
            "shapes can be tuned",
        ),
        (
            plain_loops,
            "function 'main' has no blocks, so there is nothing to schedule; write its statements "
            "inside `with T.block(...)`, or make it with te.create_prim_func",
        ),
        (
            all_opaque,
            "all blocks of function 'main' are opaque (copy): none of their iterators is spatial "
            "or reduce; use T.axis.spatial / T.axis.reduce",
        ),
        (
            without_iterators,
            "all blocks of function 'main' are opaque (one without a name): none of their "
            "iterators is spatial or reduce; use T.axis.spatial / T.axis.reduce",
        ),
        (
            vectors,
            "buffer 'A' of function 'main' holds float32x4 values, which cannot be filled with "
            "random numbers to measure with; use a number type",
        ),
    ],
    ids=["scalar", "no blocks", "opaque", "no iterators", "vectors"],
)
def test_programs(func: PrimFunc, text: str) -> None:
    with pytest.raises(TuneError) as error:
        tune(IRModule({"main": func}))
    assert str(error.value) == text


SYMBOLIC = (
    "the shape of 'A' in function 'main' is symbolic (n), so it keeps the schedule that is chosen "
    "without a search; to tune it for a certain size, replace the symbol by a number"
)


def test_symbolic_shapes_are_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    database = tune(IRModule({"main": any_size}), console=True)
    assert len(database) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f"[WARNING] {SYMBOLIC}")


def test_a_function_that_cannot_be_tuned_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    functions = {"copy": plain_loops, "main": any_size, "product": matmul}
    builder = FakeBuilder()
    database = tune_tir(
        IRModule(functions),
        "llvm",
        max_trials_global=4,
        builder=builder,
        runner=FakeRunner(),
        database="memory",
        space=tile_two,
    )
    assert {record.extra["task"] for record in database.get_all_tuning_records()} == {"product"}
    told = [line for line in capsys.readouterr().out.splitlines() if "[WARNING]" in line]
    assert [line.partition("[WARNING] ")[2] for line in told] == [
        "function 'copy' has no blocks, so there is nothing to schedule; write its statements "
        "inside `with T.block(...)`, or make it with te.create_prim_func",
        SYMBOLIC,
    ]


def test_tasks_that_cannot_be_tuned_are_left_out() -> None:
    tasks = [
        TuneContext(func, target="llvm", space_generator=tile_two, search_strategy="replay-trace")
        for func in (any_size, matmul)
    ]
    database = tune_tasks(
        tasks=tasks,
        task_weights=[1, 1],
        max_trials_global=2,
        builder=FakeBuilder(),
        runner=FakeRunner(),
        database="memory",
        console=False,
    )
    assert len(database) == 2


def test_an_empty_module() -> None:
    with pytest.raises(TuneError, match=r"the module has no functions"):
        tune(IRModule({}))


def test_some_opaque_blocks_are_no_obstacle() -> None:
    check_can_be_tuned(IRModule({"main": half_opaque}))


def test_a_block_that_runs_once_needs_no_iterators() -> None:
    check_can_be_tuned(IRModule({"main": once}))


# --- targets and options ------------------------------------------------------------------------


def test_an_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"unknown target kind 'xyz'; known: c, cuda, llvm, vta"):
        tune(matmul, "xyz")
    with pytest.raises(TargetError, match=r"unknown target kind 'lvm'; did you mean 'llvm'\?"):
        tune(matmul, "lvm")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"max_trials_global": None},
            r"say how long to tune: max_trials_global, budget_secs, or both",
        ),
        ({"max_trials_global": 0}, r"max_trials_global must be positive, got 0"),
        ({"max_trials_per_task": -1}, r"max_trials_per_task must be positive, got -1"),
        ({"num_trials_per_iter": 0}, r"num_trials_per_iter must be positive, got 0"),
        ({"budget_secs": 0.0}, r"budget_secs must be positive, got 0.0"),
        ({"budget_secs": float("nan")}, r"budget_secs must be positive, got nan"),
        ({"plateau_trials": 0}, r"plateau_trials must be positive, got 0"),
        ({"measure_callbacks": "all"}, r"measure_callbacks is a list or 'default', got 'all'"),
        ({"special_space": {"main": None}}, r"special_space leaves out every function"),
        (
            {"special_space": {"mian": None}},
            r"special_space names a function 'mian' that is not there.*main",
        ),
        ({"space": "kernel"}, r"unknown space generator 'kernel'"),
        ({"num_tuning_cores": 0}, r"num_threads must be at least 1, got 0"),
    ],
)
def test_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TuneError, match=text):
        tune(matmul, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"builder": "locl"}, r"unknown builder 'locl'; known: local, ray, replay"),
        ({"runner": "rcp"}, r"unknown runner 'rcp'; known: local, ray, replay, rpc"),
        ({"cost_model": "lgbm"}, r"unknown cost model 'lgbm'; known: gbdt"),
        (
            {"task_scheduler": "fifo"},
            r"unknown task scheduler 'fifo'; known: gradient, model, round",
        ),
        (
            {"strategy": "genetic"},
            r"unknown search strategy 'genetic'; known: arrays, cga, crand",
        ),
        ({"database": "mysql"}, r"unknown database 'mysql'; known: json, memory"),
    ],
)
def test_names(options: dict[str, Any], text: str) -> None:
    with pytest.raises(RegistryError, match=text):
        tune(matmul, **options)


@pytest.mark.parametrize("kind", [Path, str, lambda path: f"sqlite:///{path}"])
def test_a_database_is_named_by_its_path(
    tmp_path: Path, kind: Callable[[Path], str | Path]
) -> None:
    path = tmp_path / "records.db"
    with closing(make_database(kind(path), None, "structural")) as made:
        assert isinstance(made, SQLiteDatabase)
        assert Path(made.path) == path


def test_a_path_that_is_no_database(tmp_path: Path) -> None:
    text = r"there is no database at \S*/records; a new one is made if the name ends in .db"
    with pytest.raises(DatabaseError, match=text):
        tune(matmul, database=str(tmp_path / "records"))


def test_a_database_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    SQLiteDatabase(work_dir=tmp_path).close()
    with sqlite3.connect(tmp_path / "tilewright.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    text = r"written by a newer Tilewright: its schema is 99.*upgrade Tilewright, or export"
    with pytest.raises(DatabaseError, match=text):
        tune(matmul, work_dir=tmp_path)
