"""The same primitives, applied by us and by TVM, give the same program and the same trace.

What TVM recorded, in its own JSON, replays here to the same program.
Sequences are plain functions in `sequences/*.py` called `<workload>__<what>`, which take a schedule
(with the method names of TVM 0.14) and import nothing; workloads are functions of `workloads.py`
and `unusual_workloads.py`.
Where TVM refuses a sequence, so must we.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule, Trace
from tilewright.script import from_source
from tilewright.testing.schedule_checks import verify_trace_roundtrip

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PYTHON = Path(os.environ.get("TILEWRIGHT_TVM_PYTHON", ROOT / ".venv-tvm" / "bin" / "python"))
SEED = 42

pytestmark = [
    pytest.mark.tvm,
    pytest.mark.skipif(
        not PYTHON.exists(),
        reason="TVM is missing: `make bench-env` installs it, or TILEWRIGHT_TVM_PYTHON names it",
    ),
]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORKLOADS: dict[str, Callable[[], PrimFunc]] = {
    **vars(load(HERE / "workloads.py")),
    **vars(load(HERE / "unusual_workloads.py")),
}
SEQUENCES: dict[str, Callable[[Any], object]] = {
    f"{path.stem}.{name}": function
    for path in sorted((HERE / "sequences").glob("*.py"))
    for name, function in vars(load(path)).items()
    if "__" in name and not name.startswith("_")
}


class Tvm:
    """TVM in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [str(PYTHON), str(HERE / "tvm_side.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def pipes(self) -> tuple[IO[str], IO[str]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout

    def ask(self, **request: str) -> dict[str, Any]:
        to_tvm, from_tvm = self.pipes
        to_tvm.write(json.dumps(request) + "\n")
        to_tvm.flush()
        answer: dict[str, Any] = json.loads(from_tvm.readline())
        return answer

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        self.process.wait(timeout=20)


@pytest.fixture(scope="module")
def tvm() -> Iterator[Tvm]:
    process = Tvm()
    yield process
    process.close()


@pytest.mark.parametrize("name", SEQUENCES)
def test_same_program_as_tvm(name: str, tvm: Tvm) -> None:
    file, sequence = name.split(".")
    function = WORKLOADS[sequence.split("__")[0]]()
    module = IRModule({"main": function})
    theirs = tvm.ask(program=module.script(), file=file, sequence=sequence)
    assert "broken" not in theirs, theirs
    sch = Schedule(module, seed=SEED, debug_mask="all")
    if "error" in theirs:
        with pytest.raises(ScheduleError):
            SEQUENCES[name](sch)
        return
    SEQUENCES[name](sch)
    expected = from_source(theirs["script"])
    assert isinstance(expected, IRModule)
    assert sch.mod.script() == expected.script()
    assert_structural_equal(sch.mod, expected)
    if not theirs["trace"].startswith("Trace("):  # TVM cannot print decompose_padding
        assert str(sch.trace) == theirs["trace"]
    verify_trace_roundtrip(sch, module)
    _check_replay(module, theirs["json"], sch)


def _check_replay(module: IRModule, recorded: Any, sch: Schedule) -> None:
    """What TVM recorded does the same here."""
    again = Schedule(module, debug_mask="all")
    Trace.apply_json_to_schedule(recorded, again)
    assert_structural_equal(again.mod, sch.mod)
    assert str(again.trace) == str(sch.trace)


def test_there_are_many_sequences() -> None:
    assert len(SEQUENCES) >= 15
    assert all(name.split(".")[1].split("__")[0] in WORKLOADS for name in SEQUENCES)
