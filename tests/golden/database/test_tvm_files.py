"""TVM's files, read and written to the character.

`tvm_0_25` was written by TVM 0.25; `record_0_14.json` is a line of TVM 0.14, and those of
`records_of_users.json` were shown by people who tuned with it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tilewright.intrin  # noqa: F401 - one of the records tensorizes
from tilewright import te
from tilewright.database import JSONDatabase, MemoryDatabase, export, merge
from tilewright.ir import IRModule, assert_structural_equal
from tilewright.script import from_source
from tilewright.target import Target

HERE = Path(__file__).parent
MATMUL = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i, j, k in T.grid(8, 8, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""  # noqa: E501


def product(n: int, name: str, dtype: str, out_dtype: str, transposed: bool) -> IRModule:
    a, b = (te.placeholder((n, n), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, n), "k")
    c = te.compute(
        (n, n),
        lambda i, j: te.sum(
            a[i, k].astype(out_dtype) * (b[j, k] if transposed else b[k, j]).astype(out_dtype),
            axis=k,
        ),
        name=name,
    )
    return IRModule({"main": te.create_prim_func([a, b, c])})


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def tvm_files(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "tvm_0_25", tmp_path / "copy"))


def test_what_tvm_wrote_is_read(tvm_files: Path) -> None:
    database = JSONDatabase(work_dir=tvm_files)
    assert database.problems() == []
    (workload,) = database.workloads()
    assert_structural_equal(workload.mod, from_source(MATMUL))
    fast, unknown, failed = database.get_all_tuning_records()
    assert fast.run_secs == (1.5, 0.0025)
    assert unknown.run_secs in (None, (1e10,))
    assert failed.run_secs in (None, (1e10,))
    assert [record.is_valid for record in (fast, unknown, failed)] == [True, False, False]
    assert fast.trace.as_python()[-2:] == [
        "l4, l5 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True)",
        "sch.parallel(loop=l2)",
    ]


def test_what_tvm_wrote_answers_queries(tvm_files: Path) -> None:
    database, mod = JSONDatabase(work_dir=tvm_files), from_source(MATMUL)
    assert isinstance(mod, IRModule)
    sch = database.query_schedule(mod, Target("llvm -num-cores=4"), "main")
    assert sch is not None
    i_0, i_1, j, _ = sch.get_loops("C")
    assert [str(sch.get_sref(loop).loop.extent) for loop in (i_0, i_1, j)] == ["2", "4", "8"]
    assert database.query_schedule(mod, Target("nvidia/nvidia-a100"), "main") is None


def test_what_tvm_wrote_is_continued_in_its_dialect(tvm_files: Path) -> None:
    before = lines(tvm_files / "database_tuning_record.json")
    database = JSONDatabase(work_dir=tvm_files)
    (best,) = database.get_top_k(database.workloads()[0], 1)
    copy = MemoryDatabase()
    merge(copy, database)
    export(copy, tvm_files / "again", "tvm-0.25")
    again = lines(tvm_files / "again" / "database_tuning_record.json")
    assert sorted(again) == sorted(before)
    database.commit_tuning_record(best)  # known already
    assert lines(tvm_files / "database_tuning_record.json") == before


PROGRAMS = {
    "record_0_14.json": [product(128, "C", "float32", "float32", False)],
    "records_of_users.json": [
        product(128, "update", "float32", "float32", False),
        product(1024, "compute", "int8", "int32", True),
    ],
}
WORKLOADS_OF = {"record_0_14.json": [0], "records_of_users.json": [0, 1, 1]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_records_of_tvm_0_14(name: str, tmp_path: Path) -> None:
    original = lines(HERE / name)
    database = JSONDatabase(work_dir=tmp_path / "first")
    for mod in PROGRAMS[name]:
        database.commit_workload(mod)
    wanted = [
        line.replace("[0,", f"[{workload},", 1)
        for line, workload in zip(original, WORKLOADS_OF[name], strict=True)
    ]
    Path(database.path_tuning_record).write_text("\n".join(wanted) + "\n", encoding="utf-8")
    database = JSONDatabase(work_dir=tmp_path / "first")
    assert database.problems() == []
    records = database.get_all_tuning_records()
    assert len(records) == len(original)
    for record in records:
        # Each applies to its program, and gives arguments of the types it was measured with.
        assert record.as_measure_candidate().args_info == record.args_info
    written = JSONDatabase(work_dir=tmp_path / "second")
    for mod in PROGRAMS[name]:
        written.commit_workload(mod)
    merge(written, database)
    assert sorted(lines(Path(written.path_tuning_record))) == sorted(wanted)


def test_failed_records_of_users_are_never_used(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    workloads = [database.commit_workload(mod) for mod in PROGRAMS["records_of_users.json"]]
    shutil.copy(HERE / "records_of_users.json", database.path_tuning_record)
    database = JSONDatabase(work_dir=tmp_path)
    (only,) = database.get_top_k(database.commit_workload(workloads[0].mod), 9)
    assert only.run_secs == (0.00012150754394299287549,)
    assert only.target == Target("llvm -num-cores=4")
