"""Traces step by step: programs, loops, decisions, and steps that cannot be carried out."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.serve.choices import StepChoice
from tilewright.serve.loop_tree import loop_trees
from tilewright.serve.stepwise import Replayed, Stepper
from tilewright.testing.conformance.database import matmul
from tilewright.testing.te_workload import create_te_workload


@pytest.fixture
def mod() -> IRModule:
    return matmul(16, 16, 16)


@pytest.fixture
def trace(mod: IRModule) -> Trace:
    sch = Schedule(mod, seed=1)
    i, j, _ = sch.get_loops(sch.get_block("C"))
    outer, _ = sch.split(
        i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16, decision=[4, 4])
    )
    lanes = sch.sample_categorical([0, 16, 64], [0.5, 0.25, 0.25], decision=1)
    sch.annotate(outer, "unroll", lanes)
    sch.enter_postproc()
    sch.parallel(j)
    assert sch.trace is not None
    return sch.trace


def _programs(replayed: Replayed) -> list[str]:
    """The program before the first step and after each, as a page puts them together."""
    lines, programs = replayed.begin, [_plain(replayed.begin)]
    for step in replayed.steps:
        for start, end, fresh in reversed(step.change.edits if step.change else []):
            # Edits name lines of the program before the step.
            lines = [*lines[:start], *fresh, *lines[end:]]
        programs.append(_plain(lines))
    return programs


def _plain(lines: list[str]) -> str:
    return "\n".join(html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines)


def test_programs_are_those_of_the_schedule(mod: IRModule, trace: Trace) -> None:
    replayed = Stepper(mod).run(trace)
    programs = _programs(replayed)
    assert programs[0] == mod.script()
    for length, program in enumerate(programs):
        sch = Schedule(mod)
        Trace(trace.insts[:length], trace.decisions).apply_to_schedule(sch, False)
        assert program == sch.mod.script()
    changed = [step.text.partition("(")[0] for step in replayed.steps if step.change]
    assert changed == ["l6, l7 = sch.split", "sch.annotate", "sch.parallel"]
    assert [step.is_postproc for step in replayed.steps] == [False] * 6 + [True, False]
    assert (replayed.error, replayed.failed) == ("", "")


def test_decisions_can_be_read(mod: IRModule, trace: Trace) -> None:
    replayed = Stepper(mod).run(trace)
    assert {n: step.choice for n, step in enumerate(replayed.steps) if step.choice} == {
        2: StepChoice(value=[4, 4], parts=2, extent=16),
        4: StepChoice(value=1, options=[(0, "0"), (1, "16"), (2, "64")]),
    }
    assert replayed.steps[4].text == (
        "v8 = sch.sample_categorical(candidates=[0, 16, 64], decision=1)"
    )


def test_locations_have_names() -> None:
    mod = IRModule({"main": create_te_workload("GMM", 0)})
    sch = Schedule(mod, seed=1)
    sch.cache_write(sch.get_block("Z"), 0, "local")
    sch.sample_compute_location(sch.get_block("Z"), decision=-1)
    assert sch.trace is not None
    choice = Stepper(mod).run(sch.trace).steps[-1].choice
    assert choice is not None
    assert choice.value == -1
    assert choice.options[0] == (-1, "at the root")
    assert all(name.startswith("at loop ") for _, name in choice.options[1:])


def test_other_decisions_are_taken(mod: IRModule, trace: Trace) -> None:
    replayed = Stepper(mod, {2: [8, 2], 4: 2}).run(trace)
    assert replayed.error == ""
    assert "decision=[8, 2]" in replayed.steps[2].text
    trees = [step.change.loops for step in replayed.steps if step.change]
    (outer,) = trees[-1]
    assert (outer["loop"], outer["extent"]) == ("i_0", "8")


def test_factors_that_do_not_fit_are_repaired_as_the_primitive_does(
    mod: IRModule, trace: Trace
) -> None:
    choice = Stepper(mod, {2: [5, 3]}).run(trace).steps[2].choice
    assert choice is not None
    assert choice.value == [1, 16]


@pytest.mark.parametrize(
    ("decided", "place", "said"),
    [
        (
            {2: [4, 4, 1]},
            2,
            "sample_perfect_tile: the decision [4, 4, 1] is not a list of 2 positive factors",
        ),
        (
            {2: [0, 16]},
            2,
            "sample_perfect_tile: the decision [0, 16] is not a list of 2 positive factors",
        ),
        (
            {4: 3},
            4,
            "sample_categorical: the decision 3 is not the position of one of 3 candidates",
        ),
    ],
)
def test_illegal_decisions_get_the_error_of_the_primitive(
    mod: IRModule, trace: Trace, decided: dict[int, int | list[int]], place: int, said: str
) -> None:
    replayed = Stepper(mod, decided).run(trace)
    assert len(replayed.steps) == place
    assert replayed.error == said
    assert f"decision={decided[place]}" in replayed.failed


def test_a_trace_of_another_program(trace: Trace) -> None:
    mod = IRModule({"main": create_te_workload("GMM", 0)})
    replayed = Stepper(mod).run(trace)
    assert replayed.steps == []
    assert replayed.error.startswith("get_block: ")
    assert "\n" not in replayed.error


def test_no_steps(mod: IRModule) -> None:
    replayed = Stepper(mod).run(Trace())
    assert (replayed.steps, replayed.error) == ([], "")


def test_loops_as_trees(mod: IRModule) -> None:
    sch = Schedule(mod)
    i, j, _ = sch.get_loops(sch.get_block("C"))
    sch.bind(i, "blockIdx.x")
    sch.vectorize(j)
    (outer,) = loop_trees(sch.mod)
    inner: Any = outer
    ways = []
    while "loop" in inner:
        ways.append((inner["loop"], inner["extent"], inner["way"]))
        (inner,) = inner["inside"]
    assert ways == [
        ("i", "16", "blockIdx.x"), ("j", "16", "vectorized"), ("k", "16", "serial"),
    ]  # fmt: skip
    assert inner == {
        "block": "C", "reads": ["A", "B"], "writes": ["C"], "reduces": True, "inside": [],
    }  # fmt: skip
