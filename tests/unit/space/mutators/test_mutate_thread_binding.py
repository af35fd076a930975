"""MutateThreadBinding: only the numbers by which threads share a loop change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.space.mutators import MutateThreadBinding
from tilewright.target import Target
from tilewright.testing.conformance import mutator
from tilewright.testing.space_generation import generate_design_space, sampling_steps
from tilewright.testing.te_workload import create_te_workload

TARGET = Target("nvidia/geforce-rtx-2080")


@pytest.mark.parametrize("check", mutator.CHECKS, ids=lambda check: check.__name__)
def test_keeps_the_contract(check: Callable[[mutator.MakeMutator], None]) -> None:
    check(MutateThreadBinding)


def softmax() -> tuple[IRModule, Trace]:
    module = IRModule({"main": create_te_workload("SFM", 0)})
    sketch = generate_design_space("cuda", module, TARGET)[0]
    assert sketch.trace is not None
    return module, sketch.trace


def test_one_number_of_threads_changes() -> None:
    module, trace = softmax()
    steps = sampling_steps(trace)
    # The first draw is for unrolling; each of the three others is for the threads of one block.
    assert [len(step.attrs[0]) for step in steps] == [5, 6, 4, 4]
    changed = set()
    for seed in range(1, 2_000_000_000, 40_000_003):  # neighbours draw the same
        made = MutateThreadBinding().apply(trace, seed)
        assert made is not None
        (step,) = [s for s in steps if made.get_decision(s) != trace.get_decision(s)]
        changed.add(steps.index(step))
        made.apply_to_schedule(Schedule(module), remove_postproc=True)
    assert changed == {1, 2, 3}


def test_nothing_to_change() -> None:
    module = IRModule({"main": create_te_workload("GMM", 0)})
    (sketch,) = generate_design_space("cuda", module, TARGET)
    assert sketch.trace is not None
    assert MutateThreadBinding().apply(sketch.trace, 1) is None
