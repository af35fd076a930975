"""A primitive of a user's own describes itself to the algebra, or is replayed, and that is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tilewright.algebra import steps
from tilewright.algebra.loop_tree import LoopTree
from tilewright.ir import IRModule
from tilewright.schedule import LoopRV, Primitive, Schedule, register_primitive
from tilewright.schedule.primitives.split import Split
from tilewright.schedule.trace.instruction import given
from tilewright.search.replayer import Sketch
from tilewright.target import Target
from tilewright.testing.algebra_exactness import SketchExactness, sketch_exactness
from tilewright.testing.handwritten import matmul
from tilewright.testing.space_algebra import ReplayedSketch
from tilewright.tune.api import tune_tir

TARGET = Target("llvm -mcpu=cascadelake -num-cores 2")
REASON = "MadeUpHalves says nothing about what it does to loops"


@register_primitive
class MadeUpHalves(Primitive[list[LoopRV]]):
    """Two loops for one, of which the inner one has two iterations."""

    method = "made_up_halves"
    moves_blocks = False
    loop: LoopRV = given()

    def run(self, sch: Any) -> list[LoopRV]:
        return Split(self.loop, (None, 2)).run(sch)


def tiled(sch: Schedule) -> None:
    """A sketch with a step of the user's after decisions."""
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, 16))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 16))
    k0, k1 = sch.made_up_halves(k)
    sch.reorder(i0, j0, k0, i1, k1, j1)


def describe(monkeypatch: pytest.MonkeyPatch, factors: list[int | None]) -> None:
    """Register what the step does, for one test."""

    def halves(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
        return list(steps.split(tree, given["loop"], factors))

    monkeypatch.setattr(steps, "_transfers", dict(steps._transfers))
    steps.transfer("MadeUpHalves")(halves)


def compared(k: int) -> SketchExactness:
    sch = Schedule(matmul(32, 48, k), seed=1)
    tiled(sch)
    mod = IRModule({"main": matmul(32, 48, k)})
    return sketch_exactness(ReplayedSketch(mod, Sketch(0, sch), [], [], []), TARGET, 40)


@pytest.mark.parametrize("k", [16, 15, 1])
def test_a_description_is_exact(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(monkeypatch, [None, 2])
    found = compared(k)
    assert found.is_covered
    assert found.is_exact
    assert found.vectors == 40


def test_a_description_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    describe(monkeypatch, [2, None])
    assert not compared(16).is_exact


def test_without_a_description_it_is_replayed_and_said(tmp_path: Path) -> None:
    assert compared(16).reasons == {REASON: 40}
    tune_tir(
        matmul(16, 16, 16), "llvm", tmp_path, 2, space=tiled, database="memory", console=False
    )  # fmt: skip
    (log,) = (tmp_path / "logs").glob("*task_0*")
    assert f"the task is searched by replay: {REASON}" in log.read_text(encoding="utf-8")
