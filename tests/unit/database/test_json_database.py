"""TVM's two files: damage, dialects, and what has no place in them."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.database import JSONDatabase, Problem
from tilewright.database.stored_record import StoredTrace
from tilewright.database.tvm_format.json_lines import dumps
from tilewright.errors import DatabaseError
from tilewright.ir import IRModule, assert_structural_equal
from tilewright.records import FailureKind, TuningRecord, Workload
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, matmul


def filled(folder: Path, **options: str) -> JSONDatabase:
    database = JSONDatabase(work_dir=folder, dialect=options.get("dialect"))
    workload = database.commit_workload(matmul(16, 16, 16))
    database.commit_tuning_records(a_record(workload, secs) for secs in (3.0, 1.0, 2.0))
    return database


def seconds(database: JSONDatabase) -> list[float]:
    return [record.mean_secs for record in database.get_all_tuning_records()]


def test_numbers_are_written_as_tvm_does() -> None:
    values = [0.001, 1e10, 1.5, 0.2, 1e-7, 3, True, None, "größer", {"b": 1, "a": [0.1]}]
    assert dumps(values) == (
        "[0.0010000000000000000208,10000000000,1.5,0.2000000000000000111,"
        '9.9999999999999995475e-08,3,true,null,"größer",{"a":[0.10000000000000000555],"b":1}]'
    )
    with pytest.raises(DatabaseError, match="has no JSON form"):
        dumps([object()])


def test_records_are_sorted_and_lazy(tmp_path: Path) -> None:
    filled(tmp_path)
    database = JSONDatabase(work_dir=tmp_path)
    assert seconds(database) == [1.0, 2.0, 3.0]
    for record in database.get_all_tuning_records():
        assert isinstance(record.trace, StoredTrace)
        assert "insts" not in record.trace.__dict__


@pytest.mark.parametrize(("dialect", "kind"), [("0.14", '"GetBlock"'), ("0.25", '"GetSBlock"')])
def test_dialects(dialect: str, kind: str, tmp_path: Path) -> None:
    filled(tmp_path, dialect=dialect)
    database = JSONDatabase(work_dir=tmp_path)  # goes on as it finds the files
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_tuning_record(a_record(workload, 4.0))
    lines = Path(database.path_tuning_record).read_text().splitlines()
    assert len(lines) == 4
    assert all(kind in line for line in lines)
    again = JSONDatabase(work_dir=tmp_path)
    assert seconds(again) == [1.0, 2.0, 3.0, 4.0]
    for known, own in zip(again.workloads(), database.workloads(), strict=True):
        assert_structural_equal(known.mod, own.mod)


def test_unknown_dialects(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"unknown dialect of TVM '0\.15'"):
        JSONDatabase(work_dir=tmp_path, dialect="0.15")


def test_the_cpu_is_written_down(tmp_path: Path) -> None:
    """Elsewhere "llvm" would be another machine; here the record has the target it was given."""
    database = JSONDatabase(work_dir=tmp_path)
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_tuning_record(a_record(workload, 1.0, target=Target("llvm")))
    text = Path(database.path_tuning_record).read_text()
    assert f'{{"keys":["cpu"],"kind":"llvm","mcpu":"{Target("llvm").mcpu}","tag":""}}' in text
    (record,) = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert record.target == Target("llvm")


def test_failures_become_tvms_number(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    workload = database.commit_workload(matmul(8, 8, 8))
    trace = a_record(workload, 1.0).trace
    database.commit_tuning_record(TuningRecord(trace, workload, failure=FailureKind.CRASH))
    assert Path(database.path_tuning_record).read_text().endswith("[10000000000],null,null]]\n")
    (record,) = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert not record.is_valid


def test_programs_that_tvm_does_not_have_are_kept_for_us(tmp_path: Path) -> None:
    @T.prim_func
    def weighted(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (2,))
        B = T.match_buffer(b, (2,))
        data = T.allocate_const([1.0, 2.0], "float32", [2])
        C = T.decl_buffer((2,), data=data)
        for i in range(2):
            with T.block("B"):
                vi = T.axis.spatial(2, i)
                B[vi] = A[vi] * C[vi]

    mod = IRModule({"main": weighted})
    database = JSONDatabase(work_dir=tmp_path)
    database.commit_workload(mod)
    again = JSONDatabase(work_dir=tmp_path)
    assert again.has_workload(mod)
    assert again.problems() == []


def test_damaged_lines_are_reported_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = filled(tmp_path)
    records, workloads = Path(database.path_tuning_record), Path(database.path_workload)
    lines = records.read_text().splitlines()
    garbage = [
        "not JSON",
        lines[0].replace("[0,", "[7,", 1),
        lines[0].replace('"TENSOR"', '"SCALAR"', 1),
        lines[0].replace('"GetLoops"', '"Levitate"').replace("[3]", "[9]"),
    ]
    cut = lines[2][: len(lines[2]) // 2]
    records.write_text("\n".join([lines[0], *garbage, lines[1], cut]))
    workloads.write_text(workloads.read_text() + '["1","AAAA"]\nrubbish\n')
    database = JSONDatabase(work_dir=tmp_path)
    assert seconds(database) == [1.0, 3.0, 9.0]
    problems = database.problems()
    assert [(problem.table, problem.row) for problem in problems] == [
        ("database_workload.json", 2),
        ("database_workload.json", 3),
        ("database_tuning_record.json", 2),
        ("database_tuning_record.json", 3),
        ("database_tuning_record.json", 4),
        ("database_tuning_record.json", 7),
        ("database_tuning_record.json", 5),
    ]
    assert problems[0].reason == "the module is cut off"
    assert problems[3] == Problem("database_tuning_record.json", 3, "its workload 7 is missing")
    assert "unknown schedule instruction 'Levitate'" in problems[-1].reason
    assert len(caplog.messages) == 6
    # What is committed next does not continue the line that was cut off.
    workload = database.commit_workload(matmul(16, 16, 16))
    database.commit_tuning_record(a_record(workload, 0.5))
    again = JSONDatabase(work_dir=tmp_path)
    assert seconds(again) == [0.5, 1.0, 3.0, 9.0]
    # A workload that comes after damaged ones is counted by its line.
    again.commit_tuning_record(a_record(again.commit_workload(matmul(8, 8, 8)), 0.25))
    assert seconds(JSONDatabase(work_dir=tmp_path)) == [0.25, 0.5, 1.0, 3.0, 9.0]


def test_records_of_unreadable_workloads(tmp_path: Path) -> None:
    database = filled(tmp_path)
    Path(database.path_workload).write_text('["1","oops"]\n')
    database = JSONDatabase(work_dir=tmp_path)
    assert len(database) == 0
    assert [str(problem) for problem in database.problems()[1:]] == [
        f"database_tuning_record.json {line}: its workload 0 cannot be read" for line in (1, 2, 3)
    ]


def test_targets_of_other_versions(tmp_path: Path) -> None:
    """Attributes that we do not know are left out; kinds that we do not know never fit."""
    database = filled(tmp_path)
    path, mod = Path(database.path_tuning_record), matmul(16, 16, 16)
    target = f'{{"keys":["cpu"],"kind":"llvm","mcpu":"{Target(LLVM).mcpu}","num-cores":4,"tag":""}}'
    first, second, _ = path.read_text().splitlines()
    assert target in first
    old = target.replace('"tag"', '"link-params":0,"tag"')
    path.write_text(
        first.replace(target, old) + "\n" + second.replace(target, '{"kind":"hexagon"}') + "\n"
    )
    database = JSONDatabase(work_dir=tmp_path)
    other, usable = database.get_all_tuning_records()
    assert usable.target == Target(LLVM)
    assert other.target is None
    assert database.query_tuning_record(mod, Target(LLVM), "main") is usable
    assert database.query_tuning_record(mod, Target("c"), "main") is None


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=re.escape("there is no file ")):
        JSONDatabase(work_dir=tmp_path, allow_missing=False)
    with pytest.raises(DatabaseError, match="needs a work_dir, or the paths of both files"):
        JSONDatabase(tmp_path / "workloads.json")
    made = JSONDatabase(tmp_path / "a" / "w.json", tmp_path / "b" / "r.json")
    assert made.path_workload == str(tmp_path / "a" / "w.json")
    assert (tmp_path / "b" / "r.json").exists()


def test_a_damaged_state_is_no_state(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    database.save_state("search", 1)
    (tmp_path / "database_state.json").write_text('{"search"')
    assert database.load_state("search") is None
    database.save_state("search", 2)
    assert JSONDatabase(work_dir=tmp_path).load_state("search") == 2


def test_an_error_in_a_transaction_keeps_what_came_before(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)

    def fail() -> None:
        with database.transaction():
            database.commit_tuning_record(a_record(Workload(matmul(8, 8, 8), 0), 1.0))
            raise RuntimeError("the tuner broke")

    with pytest.raises(RuntimeError, match="the tuner broke"):
        fail()
    assert seconds(JSONDatabase(work_dir=tmp_path)) == [1.0]
