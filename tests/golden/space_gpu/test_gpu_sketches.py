"""The sketches that the rules of GPUs make, with the decisions that are well known.

The programs are those that TVM makes with these decisions (`tests/differential` asks it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing.known_gpu_sketches import CUDA, SINGLE
from tilewright.testing.space_generation import (
    Decision,
    check_sketches,
    decisions_of,
    generate_design_space,
    with_decisions,
)
from tilewright.testing.te_workload import create_te_workload

TARGET = Target("nvidia/geforce-rtx-2080")


def replayed(module: IRModule, sketches: list[Schedule], decisions: Sequence[Decision]) -> Schedule:
    """The first sketch that takes these decisions as they are; it is used up."""
    for sketch in sketches:
        made = with_decisions(module, sketch, decisions, debug_mask="none")
        if made is not None and decisions_of(made) == list(decisions):
            sketches.remove(sketch)
            return made
    raise AssertionError(f"no sketch takes the decisions {decisions}")


def check(
    name: str,
    module: IRModule,
    sketches: list[Schedule],
    known: Sequence[Sequence[Decision]],
    golden: Callable[[str, str], None],
) -> None:
    left = list(sketches)
    made = [replayed(module, left, decisions) for decisions in known]
    assert left == []
    golden(f"{name}.txt", "\n".join(f"{sch.mod.script()}\n" for sch in made))
    check_sketches(module, sketches, [sch.mod for sch in made], known, debug_mask="none")


@pytest.mark.parametrize("name", CUDA)
def test_workloads(name: str, golden: Callable[[str, str], None]) -> None:
    module = IRModule({"main": create_te_workload(name, 0)})
    sketches = generate_design_space("cuda", module, TARGET)
    check(name, module, sketches, CUDA[name], golden)


@pytest.mark.parametrize("name", SINGLE)
def test_single_rules(name: str, golden: Callable[[str, str], None]) -> None:
    case = SINGLE[name]
    module = IRModule({"main": case.make()})
    rules = [schedule_rules.create(rule, **options) for rule, options in case.rules]
    sketches = generate_design_space("cuda", module, Target(case.target), sch_rules=rules)
    check(name, module, sketches, case.decisions, golden)


@pytest.mark.parametrize("name", ["GMM", "C2D"])
def test_newer_gpus_also_fetch_ahead(name: str) -> None:
    module = IRModule({"main": create_te_workload(name, 0)})
    sketches = generate_design_space("cuda", module, Target("nvidia/geforce-rtx-3070"))
    stages = [str(sch.trace).count("software_pipeline_async_stages") for sch in sketches]
    assert sorted(stages) == [0, 1, 1]
