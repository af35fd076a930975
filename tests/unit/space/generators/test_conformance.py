"""Our generators do what every space generator must."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.schedule import Schedule
from tilewright.space.base import SpaceGenerator
from tilewright.space.generators import PostOrderApply, ScheduleFn, SpaceGeneratorUnion
from tilewright.target import Target
from tilewright.testing.conformance import space_generator

TARGET = Target("llvm -num-cores=4")


def split_first_loop(sch: Schedule) -> None:
    first = sch.get_child_blocks(sch.get_block("root"))[0]
    loop = sch.get_loops(first)[0]
    sch.split(loop, sch.sample_perfect_tile(loop, n=2))


def by_rules() -> SpaceGenerator:
    return PostOrderApply(sch_rules="llvm", postprocs=[], mutator_probs={})


def by_function() -> SpaceGenerator:
    return ScheduleFn(split_first_loop, [], [], {})


MAKERS: dict[str, Callable[[], SpaceGenerator]] = {
    "PostOrderApply": by_rules,
    "ScheduleFn": by_function,
    "SpaceGeneratorUnion": lambda: SpaceGeneratorUnion([by_rules(), by_function()], [], [], {}),
}


@pytest.mark.parametrize("check", space_generator.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_conformance(name: str, check: Callable[..., None]) -> None:
    check(MAKERS[name], TARGET)
