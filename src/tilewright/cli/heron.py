"""`tilewright heron`: tune the cases of a configuration as Heron does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from tilewright.cli.console import make_console, print_json
from tilewright.cli.space_constraints import ProblemAnswer, solutions_in_words
from tilewright.errors import TuneError
from tilewright.heron.config import HeronCase, HeronConfig, read_config
from tilewright.heron.demands import with_demands
from tilewright.heron.measuring import measurer_of
from tilewright.heron.operators import operation_of
from tilewright.heron.platforms import Platform, heron_platforms
from tilewright.heron.rules.user_defined import loaded_rule
from tilewright.heron.space import HeronSpace, space_of
from tilewright.heron.tuned import best_of_records, measured_again
from tilewright.heron.tuning import HeronResult, HeronRun
from tilewright.report.units import seconds
from tilewright.solver.array_solver import ArraySolver
from tilewright.solver.base import NoSolutionError
from tilewright.solver.conflicts import conflict_of
from tilewright.support.text import counted

NOTHING_WORKED = 1


@dataclass(frozen=True)
class HeronCommand:
    """What the command line asks for."""

    platform: str
    config: Path
    seed: int = 0
    max_trials: int | None = None
    measures: bool = True
    prints_space: bool = False
    is_tuned: bool = False  # only the best of an earlier run is measured


def run(command: HeronCommand) -> int:
    """Tune every case; the exit status is 0 if each has a working schedule."""
    if command.max_trials is not None and command.max_trials < 1:
        raise TuneError(f"--trials {command.max_trials}: expected at least 1")
    if command.seed < 0:
        raise TuneError(f"--seed {command.seed}: expected at least 0")
    platform = heron_platforms.create(command.platform)
    config = read_config(command.config)
    console = make_console()
    status = 0
    for name, case in config.cases.items():
        space = heron_space(platform, config, case, command.config.parent)
        if command.prints_space:
            _print_space(console, space)
        result = _tune(console, command, platform, config, name, space)
        if result is not None and result.best_secs is None:
            status = NOTHING_WORKED
    return status


def why(path: str, platform: str, *, as_json: bool) -> None:
    """Say how many solutions the cases of a configuration have, or why they have none."""
    chosen, config = heron_platforms.create(platform), read_config(Path(path))
    answers = [
        ProblemAnswer.of(name, heron_space(chosen, config, case, Path(path).parent).problem)
        for name, case in config.cases.items()
    ]
    if as_json:
        print_json([answer.as_json() for answer in answers])
        return
    console = make_console()
    for answer in answers:
        console.print(str(answer), soft_wrap=True)


def heron_space(
    platform: Platform, config: HeronConfig, case: HeronCase, beside: Path = Path()
) -> HeronSpace:
    """The space of a case, with the rules (of modules in the folder `beside`) and demands of the
    user."""
    asked = platform.case(case.operator, case.shape, config.in_dtype, config.out_dtype)
    rules = [loaded_rule(text, beside) for text in config.rules]
    return with_demands(space_of(operation_of(asked), platform, rules), config.constraints)


def _tune(
    console: Console,
    command: HeronCommand,
    platform: Platform,
    config: HeronConfig,
    name: str,
    space: HeronSpace,
) -> HeronResult | None:
    solutions = ArraySolver().prepare(space.problem)
    if solutions.is_empty:
        raise NoSolutionError(f"case {name!r} has no solution: {conflict_of(space.problem)}")
    folder = Path(config.out_name) / name
    if command.max_trials is not None:
        config = replace(config, max_trials=command.max_trials)

    def tell(number: int, result: HeronResult) -> None:
        if config.verbose:
            console.print(f"round {number}: {_summary(name, space, result)}")

    job = HeronRun(space, solutions, config, folder, command.seed, tell)
    best = best_of_records(space, folder) if command.is_tuned else None
    # Before the folder is written, since it may have the records of an earlier run.
    measurer = measurer_of(platform, space, config) if command.measures else None
    variables = len(space.problem.variables)
    size = f"{counted(variables, 'variable')}, {solutions_in_words(solutions.count)}"
    result = None
    try:
        if best is None:
            job.write_space()
        console.print(f"{name}: {size}; {folder}")
        if measurer is not None:
            result = measured_again(best, measurer) if best else job.tune(measurer)
            console.print(_summary(name, space, result))
    finally:
        if measurer is not None:
            measurer.close()
    return result


def _summary(name: str, space: HeronSpace, result: HeronResult) -> str:
    failed = len(result.failures)
    legal = f"{result.trials - failed} of {counted(result.trials, 'trial')} ran"
    if result.best_secs is None:
        return f"{name}: nothing ran; {result.failures[0] if failed else 'no candidates'}"
    rate = space.operation.flop / result.best_secs / 1e9
    first = f"; first failure: {result.failures[0]}" if failed else ""
    return f"{name}: best {seconds(result.best_secs)}, {rate:.4g} GFLOP/s; {legal}{first}"


def _print_space(console: Console, space: HeronSpace) -> None:
    """Knobs, candidates, relations of loops and variables, as Heron prints them."""
    variables = {
        name: f"Var({name}, {low}, {high}, {default})"
        for name, (low, high, default) in space.variables().items()
    }
    listed = ", ".join(f"{name!r}: {text}" for name, text in variables.items())
    for title, content in (
        ("knob_names", space.knob_names),
        ("candidates", {name: list(values) for name, values in space.candidates.items()}),
        ("axis_parents", dict(space.axis_parents)),
        ("axis_brother", dict(space.axis_brothers)),
        ("axis_ori_lenth", dict(space.axis_lengths)),
        ("compute_poses", space.short_positions()),
        ("compute_pos_names", space.position_names()),
    ):
        console.print(f"{title}: {content}", soft_wrap=True)
    console.print(f"solver.vals: {{{listed}}}", soft_wrap=True)
