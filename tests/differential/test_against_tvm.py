"""The same primitives, applied by us and by TVM, give the same program and the same trace.

What TVM recorded, in its own JSON, replays here to the same program.
Sequences are plain functions in `sequences/*.py` called `<workload>__<what>`, which take a schedule
(with the method names of TVM 0.14) and import nothing; workloads are functions of the files
`*workloads.py`.
Where TVM refuses a sequence, so must we.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule, Trace
from tilewright.script import from_source
from tilewright.testing.schedule_checks import verify_trace_roundtrip
from tilewright.testing.tvm_process import TvmProcess

HERE = Path(__file__).parent
SEED = 42

pytestmark = pytest.mark.tvm


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORKLOADS: dict[str, Callable[[], PrimFunc]] = {
    name: function
    for path in HERE.glob("*workloads.py")
    for name, function in vars(load(path)).items()
}
SEQUENCES: dict[str, Callable[[Any], object]] = {
    f"{path.stem}.{name}": function
    for path in sorted((HERE / "sequences").glob("*.py"))
    for name, function in vars(load(path)).items()
    if "__" in name and not name.startswith("_")
}


@pytest.fixture(scope="module")
def tvm(tvm_python: Path) -> Iterator[TvmProcess]:
    with TvmProcess(tvm_python, HERE / "tvm_side.py") as process:
        yield process


@pytest.mark.parametrize("name", SEQUENCES)
def test_same_program_as_tvm(name: str, tvm: TvmProcess) -> None:
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
