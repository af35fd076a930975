"""Databases travel between TVM and us: its files are ours, and ours are its."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilewright.database import JSONDatabase, SQLiteDatabase, export, merge
from tilewright.ir import IRModule
from tilewright.records import TuningRecord, args_info_of
from tilewright.schedule import Schedule
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.testing.te_workload import CONFIGS, create_te_workload
from tilewright.testing.tvm_process import answers_of

HERE = Path(__file__).parent
# Of Winograd's regions the two parsers make different, though equal, expressions.
NAMES = [name for name in CONFIGS if "WIN" not in name]

pytestmark = pytest.mark.tvm


def ask(python: Path, action: str, directory: Path) -> Any:
    side = str(HERE / "database_side.py")
    (answer,) = answers_of(python, side, action, str(directory), asked=SCRIPTS)
    return answer


def program(name: str) -> IRModule:
    """A workload as both parsers see it."""
    mod = from_source(IRModule({"main": create_te_workload(name, 0)}).script())
    assert isinstance(mod, IRModule)
    return mod


MODULES = {name: program(name) for name in NAMES}
SCRIPTS = {name: mod.script() for name, mod in MODULES.items()}


def annotated(mod: IRModule) -> Schedule:
    """The schedule that `database_side` makes."""
    sch = Schedule(mod)
    block = sch.get_child_blocks(sch.get_block("root"))[-1]
    outer, _ = sch.split(sch.get_loops(block)[0], [None, 2])
    sch.annotate(outer, "pragma_auto_unroll_max_step", 16)
    return sch


def test_a_database_of_tvm_is_read_and_asked(tmp_path: Path, tvm_python: Path) -> None:
    (tmp_path / "tvm").mkdir()
    ask(tvm_python, "write", tmp_path / "tvm")
    database = JSONDatabase(work_dir=tmp_path / "tvm")
    assert database.problems() == []
    assert len(database) == len(NAMES)
    target = Target("llvm -mcpu=cascadelake -num-cores=4")
    for number, mod in enumerate(MODULES.values()):
        record = database.query_tuning_record(mod, target, "main")
        assert record is not None
        assert record.run_secs == (number + 0.25, number + 0.75)
        assert record.args_info == args_info_of(mod)
        assert str(record.trace) == str(annotated(mod).trace)
        assert record.as_measure_candidate().sch.mod.script() == annotated(mod).mod.script()
        assert database.query_tuning_record(mod, Target("llvm -mcpu=haswell"), "main") is None
    copy = SQLiteDatabase(tmp_path / "copy.db")
    assert merge(copy, database) == len(NAMES)
    export(copy, tmp_path / "back", "tvm-0.25")
    name = "database_tuning_record.json"
    assert (tmp_path / "back" / name).read_text() == (tmp_path / "tvm" / name).read_text()
    copy.close()


def test_our_database_is_read_by_tvm(tmp_path: Path, tvm_python: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path, dialect="0.25")
    for number, mod in enumerate(MODULES.values()):
        trace = annotated(mod).trace
        assert trace is not None
        workload = database.commit_workload(mod)
        secs = (number + 0.5,)
        database.commit_tuning_record(
            TuningRecord(trace, workload, secs, Target("llvm"), args_info_of(mod))
        )
    answers = ask(tvm_python, "read", tmp_path)
    for number, name in enumerate(NAMES):
        assert answers[name] == {"known": True, "run_secs": [number + 0.5]}, name
