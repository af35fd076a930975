"""`tilewright bench`: the naive program, ours without and with a search, and PyTorch's."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewright.cli.arguments import work_of
from tilewright.cli.console import make_console, print_json
from tilewright.cli.models import ModelOptions, is_model
from tilewright.cli.options import has_database, reading, refuse_model_options, runnable_target
from tilewright.cli.programs import Program, load_function, open_text, single_program
from tilewright.cli.tables import print_table
from tilewright.database.similarity import describe
from tilewright.ir import IRModule
from tilewright.measure import side_by_side
from tilewright.measure.side_by_side import TimedVersion
from tilewright.report.packing import packed_in
from tilewright.report.roofline import MeasuredPeaks, flop_of, roofline_of
from tilewright.report.units import gflops, percent, seconds, short_target
from tilewright.runtime import ndarray
from tilewright.runtime.devices import cpu, cuda
from tilewright.space.gpu.plain_loops import plain_schedule
from tilewright.target import Target
from tilewright.tune.checks import check_can_be_tuned
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule

TORCH_WORKLOADS = "tilewright.workloads.in_torch"
HEADER = ("version", "time", "GFLOPS", "of roofline", "speed-up", "results")


@dataclass(frozen=True)
class BenchCommand:
    """What the user asked for."""

    text: str
    db: str | None = None
    target: str = "llvm"
    against: str | None = None
    model: ModelOptions = field(default_factory=ModelOptions)  # for models


def run(options: BenchCommand, *, as_json: bool) -> int:
    """Run all versions in turn; the exit status is 1 if one of ours computes something else."""
    named = open_text(options.text)
    if is_model(named):
        status: int = work_of("model_bench").run(named, options, as_json=as_json)
        return status
    refuse_model_options(options.model.given)
    return _bench_program(single_program(named), options, as_json=as_json)


def _bench_program(program: Program, options: BenchCommand, *, as_json: bool) -> int:
    db, target_text, against = options.db, options.target, options.against
    check_can_be_tuned(program.mod)
    target = runnable_target(target_text)
    load = side_by_side.other_load(target.num_cores) if target.is_cpu else ""
    versions, notes = _versions(program, target, db, against)
    side_by_side.compare(versions)
    side_by_side.check(versions, program.mod)
    spread = max(version.spread for version in versions)
    if spread > side_by_side.NOISY:
        notes.append(f"times vary by a factor of {spread:.1f}: this machine is busy")
    elif load:
        notes.append(f"{load}: times may be too long")
    if as_json:
        print_json(_as_json(program, target, versions, notes))
    else:
        _print(program, target, versions, notes)
    return int(any(version.check for version in versions))


def _versions(
    program: Program, target: Target, db: str | None, against: str | None
) -> tuple[list[TimedVersion], list[str]]:
    """What can be compared, and why other things cannot."""
    found = [side_by_side.kernel("naive", _plain(program, target), target)]
    found += _ours("zero-search", default_schedule(program.func, target).mod, target)
    notes = []
    tuned, why_not = _tuned(program, target, db)
    if tuned is not None:
        found += _ours("tuned", tuned, target)
    else:
        notes.append(f"tuned: {why_not}")
    for make in (_torch, _other(against)):
        rival = make(program, target)
        if isinstance(rival, TimedVersion):
            found.append(rival)
        elif rival:
            notes.append(rival)
    return found, notes


def _plain(program: Program, target: Target) -> IRModule:
    return plain_schedule(normalize_mod(program.func), target).mod


def _ours(name: str, mod: IRModule, target: Target) -> list[TimedVersion]:
    """A kernel, as it runs with bound weights if it packs them, and with a plain call."""
    weights = packed_in(mod)
    if not weights:
        return [side_by_side.kernel(name, mod, target)]
    call = f"bind({', '.join(f'{weight}=...' for weight in weights)})"
    return [
        side_by_side.kernel(f"{name}, {call}", mod, target),
        side_by_side.kernel(f"{name}, packing at each call", mod, target, bound=False),
    ]


def _tuned(program: Program, target: Target, db: str | None) -> tuple[IRModule | None, str]:
    if not has_database(db):
        return None, f"there are no records yet; run `tilewright tune {program.name}`"
    mod = normalize_mod(program.func)
    with reading(db) as database:
        sch = database.query_schedule(mod, target, "main")
        if sch is None:
            return None, database.explain_miss(mod, target)
    return sch.mod, ""


def _torch(program: Program, target: Target) -> TimedVersion | str:
    if program.workload is None:
        return ""
    if find_spec("torch") is None:
        return "PyTorch: not installed here"
    rivals = importlib.import_module(TORCH_WORKLOADS)
    if program.workload not in rivals.MAKERS:
        return f"PyTorch: no counterpart of {program.workload}"
    arrays = side_by_side.inputs_of(_plain(program, target), target)
    if target.is_cpu:
        call, output = rivals.make(program.workload, program.arguments, arrays)
        return side_by_side.python_function("PyTorch", call, output)
    call, output = rivals.make(program.workload, program.arguments, arrays, device="cuda")
    return TimedVersion("PyTorch", rivals.timed_on_gpu(call), lambda: [output()], settle=True)


def _other(against: str | None) -> Callable[[Program, Target], TimedVersion | str]:
    """A function of the user's own, which takes all arrays and returns the output.

    On a GPU the arrays are there, too.
    """

    def make(program: Program, target: Target) -> TimedVersion | str:
        if against is None:
            return ""
        function = load_function(against, "--against")
        arrays: list[Any] = side_by_side.inputs_of(_plain(program, target), target)
        device = cpu() if target.is_cpu else cuda()
        if not target.is_cpu:
            arrays = [ndarray.array(array, device) for array in arrays]
        name = Path(against.partition(".py:")[0]).name + ":" + against.rpartition(":")[2]
        side_by_side.require_numbers(name, function(*arrays))
        return side_by_side.python_function(
            name, lambda: function(*arrays), lambda: function(*arrays), device.sync
        )

    return make


# --- output -------------------------------------------------------------------------------------


def _print(
    program: Program, target: Target, versions: Sequence[TimedVersion], notes: Sequence[str]
) -> None:
    console = make_console()
    console.print(f"{program.name} {describe(program.mod)} on {short_target(target)}")
    limit = roofline_of(program.mod, target, MeasuredPeaks(target))
    flop, naive = flop_of(program.mod), versions[0].secs
    rows = [
        (
            version.name,
            seconds(version.secs),
            gflops(flop, version.secs),
            percent(None if limit is None else limit.share(version.secs)),
            f"{naive / version.secs:.1f}x",
            version.check or "agree",
        )
        for version in versions
    ]
    print_table(console, HEADER, rows)
    for note in notes:
        console.print(note)


def _as_json(
    program: Program, target: Target, versions: Sequence[TimedVersion], notes: Sequence[str]
) -> dict[str, object]:
    flop = flop_of(program.mod)
    return {
        "task": program.name,
        "shape": describe(program.mod),
        "target": str(target),
        "versions": [
            {
                "name": version.name,
                "secs": version.secs,
                "rows": version.rows,
                "gflops": flop / version.secs / 1e9,
                "agrees": not version.check,
                "difference": version.check or None,
            }
            for version in versions
        ],
        "notes": notes,
    }
