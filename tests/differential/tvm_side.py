"""TVM's side of the differential tests; runs in TVM's own environment.

Each line on standard input is a JSON object with `program` (script of a function under the names of
TVM 0.14), `file` and `sequence` (a function of a file in `sequences/`). The answer is one line: the
program after the sequence and its trace, again under those names, or the error that TVM raised.
"""

import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule

HERE = Path(__file__).parent
SEED = 42
# TVM 0.25 spells some constructs differently from 0.14.
RENAMED = {
    "T.block_attr": "T.sblock_attr",
    "T.block(": "T.sblock(",
    "T.alloc_buffer": "T.sblock_alloc_buffer",
    "@T.prim_func": "@T.prim_func(s_tir=True)",
    '"tir.noalias": T.bool(True)': '"tirx.noalias": True',
    '"auto_copy": 1': '"auto_copy": True',
}
TRACE_RENAMED = {
    "get_block(": "get_sblock(",
    "# from tilewright import tir": "# from tvm import s_tir",
    "tir.Schedule": "s_tir.Schedule",
    "get_output_blocks(scope_block=": "get_output_blocks(block=",
}


class RenamedSchedule:
    """A schedule under the method names of TVM 0.14."""

    def __init__(self, schedule: Any) -> None:
        self.schedule = schedule

    def __getattr__(self, name: str) -> Any:
        return getattr(self.schedule, {"get_block": "get_sblock"}.get(name, name))


def to_tvm(text: str) -> str:
    """A program under TVM's names of today."""
    text = text[text.index("@I.ir_module") :]
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def from_tvm(text: str) -> str:
    """A program under the names of 0.14."""
    for old, new in RENAMED.items():
        text = text.replace(new, old)
    return text


def trace_text(schedule: Any) -> str:
    """The trace under the names of 0.14."""
    text = str(schedule.trace).replace(", disable_predication=False", "")
    text = re.sub(r"T\.(float\d+)\((-?\d+)\.0\)", r"T.\1(\2)", text)
    for old, new in TRACE_RENAMED.items():
        text = text.replace(new, old)
    return text


def plain(value: Any) -> Any:
    """A trace as plain JSON values."""
    if isinstance(value, tvm.tirx.IntImm):
        return bool(value.value) if str(value.dtype) == "bool" else value.value
    if isinstance(value, tvm.tirx.FloatImm):
        return value.value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.ir.Map):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


def register_intrinsics(sequence: str) -> None:
    """Let TVM register the tensor intrinsics that a sequence uses; that takes it long."""
    for word, module in (("tensorize", "x86"), ("tensor_cores", "cuda")):
        if word in sequence:
            importlib.import_module(f"tvm.s_tir.tensor_intrin.{module}")


def load(file: str, name: str) -> Any:
    """A sequence by its file and name."""
    spec = importlib.util.spec_from_file_location(file, HERE / "sequences" / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def answer(request: dict[str, str]) -> dict[str, Any]:
    """What TVM makes of a request."""
    try:
        program = tvm.script.from_source(to_tvm(request["program"]))
        schedule = Schedule(program, seed=SEED, debug_mask="all")
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"}
    register_intrinsics(request["sequence"])
    try:
        load(request["file"], request["sequence"])(RenamedSchedule(schedule))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "script": from_tvm(schedule.mod.script()),
        "trace": trace_text(schedule),
        "json": plain(schedule.trace.as_json()),
    }


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
