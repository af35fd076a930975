"""The work of `tilewright space`: what a search would choose from, and why."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cli.console import make_console, print_json
from tilewright.cli.decisions import Decision, decisions_of, points_of
from tilewright.cli.programs import Program, load_program
from tilewright.cli.tables import print_table
from tilewright.cli.watched_rules import RuleLog, make_context, watch
from tilewright.errors import TuneError
from tilewright.ir import Block, IRModule
from tilewright.ir.patterns import nodes_of
from tilewright.schedule import Schedule
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted
from tilewright.target import Target
from tilewright.tune.checks import check_can_be_tuned


def show(text: str, target: str, space: str, sketch: int | None, *, as_json: bool) -> None:
    """List the sketches of a program with their open decisions."""
    loaded = _loaded(text)
    context = make_context(loaded.func, Target(target), space)
    sketches = context.generate_design_space()
    assert context.mod is not None
    numbers = _chosen(sketches, sketch)
    found = [(number, decisions_of(context.mod, sketches[number])) for number in numbers]
    if as_json:
        listed = [_as_json(number, sketches[number], decisions) for number, decisions in found]
        print_json(listed)
        return
    console = make_console()
    for number, decisions in found:
        points = _candidates(points_of(decisions))
        console.print(f"sketch {number}: {counted(len(decisions), 'decision')}, {points}")
        for decision in decisions:
            choices = counted(decision.choices, "choice")
            console.print(f"    {choices:>12}  {decision.step}")
        if len(found) == 1:
            console.print(f"\n{sketches[number].mod.script()}\n")
    if len(sketches) > 1 and sketch is None:
        total = _candidates(sum(points_of(decisions) for _, decisions in found))
        console.print(f"{loaded.name}: {counted(len(sketches), 'sketch', 'sketches')}, {total}")
        console.print("--sketch N prints the script of one")


def _loaded(text: str) -> Program:
    program = load_program(text)
    check_can_be_tuned(IRModule({program.name: program.func}))
    return program


def _chosen(sketches: Sequence[Schedule], number: int | None) -> list[int]:
    if number is None:
        return list(range(len(sketches)))
    if not 0 <= number < len(sketches):
        raise TuneError(f"there is no sketch {number}; there are sketches 0 to {len(sketches) - 1}")
    return [number]


def _candidates(number: int) -> str:
    return counted(number, "candidate") if number < 100_000 else f"{number:.1e} candidates"


def _as_json(number: int, sketch: Schedule, decisions: Sequence[Decision]) -> dict[str, object]:
    return {
        "sketch": number,
        "candidates": points_of(decisions),
        "decisions": [{"step": d.step, "choices": d.choices} for d in decisions],
        "script": sketch.mod.script(),
        "trace": str(sketch.trace),
    }


def why(text: str, block: str | None, target: str, space: str, *, as_json: bool) -> None:
    """Explain for each block which rules applied, and why the others did not."""
    loaded = _loaded(text)
    logs = watch(make_context(loaded.func, Target(target), space))
    known = list(dict.fromkeys(visit.block for log in logs for visit in log.visits))
    own = {stmt.name_hint for stmt in nodes_of(loaded.func.body, Block)}
    if block is not None and block not in known:
        raise TuneError(f"{loaded.name} has no block {block!r}{did_you_mean(block, known)}")
    # Blocks that rules have made are told about when they are asked for.
    blocks = [name for name in known if name in own] if block is None else [block]
    if as_json:
        print_json(_answers(logs, blocks))
        return
    console = make_console()
    for log in logs:
        for name in blocks:
            console.print(f"block {name}, {log.name}:")
            rows = [(f"    {rule}", _verdict(log, rule, name)) for rule in dict.fromkeys(log.rules)]
            print_table(console, ("    rule", "what it did"), rows)
            console.print()


def _verdict(log: RuleLog, rule: str, block: str) -> str:
    visits = [visit for visit in log.visits if visit.rule == rule and visit.block == block]
    if not visits:
        changed = [v.rule for v in log.visits if v.block == block and v.applied]
        gone = f"{changed[-1]} has replaced the block" if changed else "there was no such block yet"
        return f"was not asked: {gone}"
    applied = [visit for visit in visits if visit.applied]
    if applied:
        details = ", ".join(dict.fromkeys(visit.detail for visit in applied if visit.detail))
        some = (
            "" if len(applied) == len(visits) else f" in {len(applied)} of {len(visits)} sketches"
        )
        return f"applied{some}{f': {details}' if details else ''}"
    return "not applied: " + "; ".join(dict.fromkeys(visit.detail for visit in visits))


def _answers(logs: Sequence[RuleLog], blocks: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"block": block, "rules": log.name, "rule": rule, "verdict": _verdict(log, rule, block)}
        for log in logs
        for block in blocks
        for rule in dict.fromkeys(log.rules)
    ]
