"""`tilewright bench MODEL`: our model, calculated and tuned, against others, in turn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.cli.bench import BenchCommand
from tilewright.cli.console import make_console, print_json
from tilewright.cli.models import Model, is_saved, load_saved, model_of
from tilewright.cli.options import has_database, reading, runnable_target
from tilewright.cli.originals import Original, difference
from tilewright.cli.programs import NamedValue
from tilewright.cli.rivals import make_rivals, rivals_of
from tilewright.cli.tables import print_table
from tilewright.graph.graph import Array
from tilewright.measure import side_by_side
from tilewright.measure.side_by_side import TimedVersion
from tilewright.model import CompiledModel, RunnableModel, compile_model, served_by
from tilewright.model.compiled import on_device_of, results_of
from tilewright.model.finals import random_inputs
from tilewright.report.units import seconds, short_target
from tilewright.runtime.devices import CPU, cuda
from tilewright.target import Target

_HEADER = ("version", "time", "ratio", "results")
_ROUNDS = 25  # a row has few runs of a model, in which a disturbance counts for much


@dataclass
class _Contest:
    """Versions of one model, and what to tell beside them."""

    inputs: Sequence[Array]
    versions: list[TimedVersion] = field(default_factory=list)
    runs: list[Original] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    target: Target | None = None  # of a model from a file

    def add(self, version: Original) -> None:
        """One more version."""
        inputs, wait = self.inputs, cuda().sync if version.start is not None else lambda: None
        run = functools.partial(version.run, inputs)
        call = run if version.start is None else version.start(inputs)
        self.runs.append(version)
        self.versions.append(
            side_by_side.python_function(version.name, call, lambda: run()[0], wait)
        )

    def check(self) -> None:
        """Compare all outputs with those of the first version."""
        wanted = [array.copy() for array in self.runs[0].run(self.inputs)]
        for version, run in zip(self.versions[1:], self.runs[1:], strict=True):
            version.check = difference(wanted, run.run(self.inputs))


def run(named: NamedValue, options: BenchCommand, *, as_json: bool) -> int:
    """Run all versions in turn; the exit status is 1 if results differ."""
    rivals = rivals_of(options.against)
    target = runnable_target(options.target)
    load = side_by_side.other_load(target.num_cores) if target.is_cpu else ""
    if is_saved(named):
        contest, name = _saved_contest(named, rivals), named.text
        target = contest.target or target
    else:
        model = model_of(named, options.model)
        contest, name = _contest(model, target, options.db, rivals), model.name
    side_by_side.compare(contest.versions, _ROUNDS)
    contest.check()
    if load:
        contest.notes.append(f"{load}: times may be too long")
    if as_json:
        print_json(_as_json(name, target, contest))
    else:
        _print(name, target, contest)
    return int(any(version.check for version in contest.versions))


def _saved_contest(named: NamedValue, rivals: Sequence[str]) -> _Contest:
    assert named.path is not None
    executable = load_saved(named.path)
    target = executable.program.target
    contest = _Contest(random_inputs(executable.graph), target=Target(target) if target else None)
    contest.add(_ours("tilewright", executable))
    contest.notes += [f"{name}: a saved model has no original to run" for name in rivals]
    return contest


def _contest(model: Model, target: Target, db: str | None, rivals: Sequence[str]) -> _Contest:
    contest = _Contest(random_inputs(model.graph))
    contest.add(
        _ours("calculated", compile_model(model.graph, target, **model.options.of_compiler))
    )
    tuned = _tuned(model, target, db)
    if isinstance(tuned, str):
        contest.notes.append(f"tuned: {tuned}")
    else:
        contest.notes.append(f"tuned: {served_by(tuned).summary()}")
        contest.add(_ours("tuned", tuned))
    found, notes = make_rivals(rivals, model, target)
    for rival in found:
        contest.add(rival)
    contest.notes += notes
    return contest


def _ours(name: str, model: RunnableModel) -> Original:
    def start(inputs: Sequence[Array]) -> Callable[[], object]:
        return functools.partial(model, *on_device_of(model, inputs))

    is_on_cpu = model.device.device_type == CPU
    return Original(
        name, lambda inputs: results_of(model, inputs), start=None if is_on_cpu else start
    )


def _tuned(model: Model, target: Target, db: str | None) -> CompiledModel | str:
    if not has_database(db):
        return f"there are no records yet; run `tilewright tune {model.named.text}`"
    with reading(db) as database:
        executable = compile_model(model.graph, target, database, **model.options.of_compiler)
    if served_by(executable).knows_none:
        return f"the database knows none of its kernels; run `tilewright tune {model.named.text}`"
    return executable


def _print(name: str, target: Target, contest: _Contest) -> None:
    console = make_console()
    console.print(f"{name} on {short_target(target)}, times in turn")
    ours = _ours_secs(contest)
    rows = [
        (v.name, seconds(v.secs), f"{v.secs / ours:.2f}", v.check or "agree")
        for v in contest.versions
    ]
    print_table(console, _HEADER, rows)
    for note in contest.notes:
        console.print(note)


def _ours_secs(contest: _Contest) -> float:
    """The best of ours, which ratios refer to."""
    own = [v.secs for v in contest.versions if v.name in ("calculated", "tuned", "tilewright")]
    return min(own)


def _as_json(name: str, target: Target, contest: _Contest) -> dict[str, object]:
    ours = _ours_secs(contest)
    return {
        "model": name,
        "target": short_target(target),
        "versions": [
            {
                "name": version.name,
                "secs": version.secs,
                "ratio": version.secs / ours,
                "difference": version.check or None,
            }
            for version in contest.versions
        ],
        "notes": contest.notes,
    }
