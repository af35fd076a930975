"""TVM's side of the tests of database files; runs in TVM's own environment.

    database_side.py write DIRECTORY     workloads and a record of each, for the programs on stdin
    database_side.py read DIRECTORY      what TVM makes of a database, for the programs on stdin

Standard input is a JSON object: names of programs and their scripts under the names of TVM 0.14.
The answer is one JSON object.
"""

import importlib
import json
import sys
from typing import Any

import tvm
from tvm.s_tir import Schedule, meta_schedule as ms

tvm_side = importlib.import_module("tvm_side")  # lies beside this file
TARGET = {"kind": "llvm", "mcpu": "cascadelake", "num-cores": 4}


def modules() -> dict[str, Any]:
    """The programs on standard input."""
    scripts = json.load(sys.stdin)
    return {
        name: tvm.script.from_source(tvm_side.to_tvm(script)) for name, script in scripts.items()
    }


def annotated(mod: Any) -> Any:
    """A schedule that any program has."""
    sch = Schedule(mod)
    block = sch.get_child_blocks(sch.get_sblock("root"))[-1]
    loop = sch.get_loops(block)[0]
    outer, _ = sch.split(loop, [None, 2])
    sch.annotate(outer, "pragma_auto_unroll_max_step", 16)
    return sch


def write(directory: str) -> Any:
    database = ms.database.JSONDatabase(work_dir=directory)
    for number, mod in enumerate(modules().values()):
        record = ms.database.TuningRecord(
            annotated(mod).trace,
            database.commit_workload(mod),
            [number + 0.25, number + 0.75],
            tvm.target.Target(TARGET),
            ms.arg_info.ArgInfo.from_prim_func(mod["main"]),
        )
        database.commit_tuning_record(record)
    return len(database)


def read(directory: str) -> Any:
    database = ms.database.JSONDatabase(work_dir=directory)
    answer = {}
    for name, mod in modules().items():
        found = database.query_tuning_record(mod, tvm.target.Target("llvm"), "main")
        secs = None if found is None else [float(value) for value in found.run_secs]
        answer[name] = {"known": database.has_workload(mod), "run_secs": secs}
    return answer


def main() -> None:
    """Carry out what the arguments ask."""
    action, directory = sys.argv[1:]
    print(json.dumps({"write": write, "read": read}[action](directory)))


if __name__ == "__main__":
    main()
