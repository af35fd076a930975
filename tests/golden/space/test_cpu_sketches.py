"""The sketches that the CPU's rules make of the workloads, with the decisions that are well known.

The programs are those that TVM makes with these decisions (`tests/differential` asks it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.known_sketches import CPU
from tilewright.testing.space_generation import (
    Decision,
    check_sketches,
    decisions_of,
    generate_design_space,
    with_decisions,
)
from tilewright.testing.te_workload import create_te_workload

TARGET = Target("aws/cpu/c5.9xlarge")


def replayed(module: IRModule, sketches: list[Schedule], decisions: Sequence[Decision]) -> Schedule:
    """The first sketch that takes these decisions as they are; it is used up."""
    for sketch in sketches:
        made = with_decisions(module, sketch, decisions, debug_mask="none")
        if made is not None and decisions_of(made) == list(decisions):
            sketches.remove(sketch)
            return made
    raise AssertionError(f"no sketch takes the decisions {decisions}")


@pytest.mark.parametrize("name", CPU)
def test_known_decisions(name: str, golden: Callable[[str, str], None]) -> None:
    module = IRModule({"main": create_te_workload(name, 0)})
    sketches = generate_design_space("llvm", module, TARGET)
    left = list(sketches)
    made = [replayed(module, left, decisions) for decisions in CPU[name]]
    assert left == []
    golden(f"{name}.txt", "\n".join(f"{sch.mod.script()}\n" for sch in made))
    check_sketches(module, sketches, [sch.mod for sch in made], CPU[name], debug_mask="none")


def test_design_space_of_a_matrix_product(golden: Callable[[str, str], None]) -> None:
    """Also the order of the sketches and the random decisions are TVM's."""
    module = IRModule({"main": create_te_workload("GMM", 0)})
    sketches = generate_design_space("llvm", module, Target("llvm -num-cores=4"), seed=42)
    golden("GMM_traces.txt", "\n".join(f"{sch.trace}\n" for sch in sketches))
