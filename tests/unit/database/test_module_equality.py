"""When two programs are the same workload."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright import te
from tilewright.database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    ModuleEquality,
    SQLiteDatabase,
    find_anchor_block,
    get_module_equality,
    module_equalities,
)
from tilewright.errors import RegistryError
from tilewright.ir import IRModule, PrimFunc
from tilewright.records import TuningRecord
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.conformance.database import a_record, matmul


def with_relu(n: int) -> IRModule:
    return IRModule({"main": te.create_prim_func(list(te_workload.matmul_relu(n, n, n)))})


def scaled(one: float, two: float) -> IRModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (2,))
        B = T.match_buffer(b, (2,))
        data = T.allocate_const([one, two], "float32", [2])
        C = T.decl_buffer((2,), data=data)
        for i in range(2):
            with T.block("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = A[vi] * C[vi]

    return IRModule({"main": main})


@T.prim_func
def two_reductions(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i, k in T.grid(8, 8):
        with T.block("light"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i, k in T.grid(8, 8):
        with T.block("heavy"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * A[vk, vi] * B[vk]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n,))
    for i, k in T.grid(n, 8):
        with T.block("first"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i, k in T.grid(n, 8):
        with T.block("second"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(1)
            B[vi] = B[vi] + A[vi, vk]


@pytest.mark.parametrize(
    ("mode", "equal", "different"),
    [
        (
            "structural",
            [(matmul(8, 8, 8), matmul(8, 8, 8))],
            [(matmul(8, 8, 8), with_relu(8)), (scaled(1, 2), scaled(3, 4))],
        ),
        (
            "ignore-ndarray",
            [(scaled(1, 2), scaled(3, 4)), (matmul(8, 8, 8), matmul(8, 8, 8))],
            [(matmul(8, 8, 8), with_relu(8)), (scaled(1, 2), matmul(2, 2, 2))],
        ),
        (
            "anchor-block",
            [(matmul(8, 8, 8), with_relu(8)), (scaled(1, 2), scaled(3, 4))],
            [(matmul(8, 8, 8), with_relu(16)), (scaled(1, 2), matmul(8, 8, 8))],
        ),
    ],
)
def test_modes(
    mode: str,
    equal: list[tuple[IRModule, IRModule]],
    different: list[tuple[IRModule, IRModule]],
) -> None:
    equality = get_module_equality(mode)
    for one, two in equal:
        assert equality.equal(one, two)
        assert equality.hash(one) == equality.hash(two)
    for one, two in different:
        assert not equality.equal(one, two)
        assert equality.hash(one) != equality.hash(two)


def test_unknown_modes() -> None:
    with pytest.raises(RegistryError) as failure:
        MemoryDatabase(module_equality="by-name")
    assert str(failure.value) == (
        "unknown module equality 'by-name'; known: anchor-block, ignore-ndarray, ignore-tensor, "
        "structural"
    )


def name_of_anchor(*functions: PrimFunc, **named: PrimFunc) -> str | None:
    mod = IRModule({**{str(number): func for number, func in enumerate(functions)}, **named})
    block = find_anchor_block(mod)
    return None if block is None else block.name_hint


def test_anchor_blocks() -> None:
    elementwise = scaled(1, 2)["main"]
    assert name_of_anchor(with_relu(8)["main"]) == "C"
    assert name_of_anchor(elementwise) is None
    assert name_of_anchor(two_reductions) == "heavy"
    assert name_of_anchor(symbolic) == "first"
    assert name_of_anchor(two_reductions, elementwise) is None  # no entry
    assert name_of_anchor(elementwise, main=two_reductions) == "heavy"
    entry = two_reductions.with_attr("tir.is_entry_func", True)
    assert name_of_anchor(entry, main=elementwise) == "heavy"


Make = Callable[[Path, str], Database]
STORES: dict[str, Make] = {
    "memory": lambda folder, mode: MemoryDatabase(mode),
    "sqlite": lambda folder, mode: SQLiteDatabase(folder / "a.db", module_equality=mode),
    "json": lambda folder, mode: JSONDatabase(work_dir=folder, module_equality=mode),
}


@pytest.mark.parametrize("kind", STORES)
def test_databases_use_the_equality_they_are_given(kind: str, tmp_path: Path) -> None:
    database, target = STORES[kind](tmp_path, "anchor-block"), Target("llvm -num-cores=4")
    plain, fused = matmul(8, 8, 8), with_relu(8)
    workload = database.commit_workload(plain)
    assert database.commit_workload(fused) is workload
    database.commit_tuning_record(a_record(workload, 2.0))
    found = database.query_tuning_record(fused, target, "main")
    assert found is not None
    assert found.mean_secs == 2.0
    # A record of the fused program comes with that program: its trace works on no other.
    other = MemoryDatabase().commit_workload(fused)
    sch = Schedule(fused)
    sch.parallel(sch.get_loops("compute")[0])
    assert sch.trace is not None
    database.commit_tuning_record(TuningRecord(sch.trace, other, (1.0,), target))
    best = database.query_schedule(plain, target, "main")
    assert best is not None
    assert [record.mean_secs for record in database.get_top_k(workload, 5)] == [1.0, 2.0]
    database.close()


def test_an_sqlite_file_serves_every_equality(tmp_path: Path) -> None:
    strict = SQLiteDatabase(tmp_path / "a.db")
    strict.commit_tuning_record(a_record(strict.commit_workload(matmul(8, 8, 8)), 1.0))
    assert not strict.has_workload(with_relu(8))
    strict.close()
    assert SQLiteDatabase(tmp_path / "a.db", module_equality="anchor-block").has_workload(
        with_relu(8)
    )


class ByNumberOfFunctions(ModuleEquality):
    """An equality that no earlier writer knew."""

    name = "by-count"

    def hash(self, mod: IRModule) -> int:
        return len(mod)

    def equal(self, lhs: IRModule, rhs: IRModule) -> bool:
        return len(lhs) == len(rhs)


def test_equalities_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module_equalities._members, "by-count", ByNumberOfFunctions)
    strict = SQLiteDatabase(tmp_path / "a.db")
    strict.commit_workload(matmul(8, 8, 8))
    strict.close()
    loose = SQLiteDatabase(tmp_path / "a.db", module_equality="by-count")
    assert loose.has_workload(scaled(1, 2))
    loose.close()
