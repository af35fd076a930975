"""Compares the algebra of a sketch with what is read from replayed candidates.

Every difference is a line of text, so that a test shows what is wrong and not only that it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel, StructureCase
from tilewright.algebra.nest_columns import NestColumns
from tilewright.algebra.nest_view import NestView
from tilewright.algebra.scoring import BatchScorer
from tilewright.cost_model.prior import Machine, estimate
from tilewright.ir import ForKind, IRModule, PrimFunc
from tilewright.nest.loops import Loop
from tilewright.nest.nests import StoreNest, nests_in
from tilewright.nest.reading import read
from tilewright.records import entry_function
from tilewright.schedule import Schedule, Trace
from tilewright.search.replayer import Replayer, SearchStatistics, Sketch
from tilewright.space.base import Postproc
from tilewright.space.generators import create_space_generator
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask


@dataclass(frozen=True, eq=False)
class ReplayedSketch:
    """A sketch, and candidates of it that were replayed."""

    mod: IRModule
    sketch: Sketch
    postprocs: Sequence[Postproc]
    vectors: list[list[Any]]
    functions: list[PrimFunc]

    @staticmethod
    def draw(
        mod: IRModule, sketch: Sketch, postprocs: Sequence[Postproc], count: int
    ) -> ReplayedSketch:
        """Candidates with random decisions."""
        replayer = _replayer(mod, postprocs)
        drafts = [replayer.draw(sketch, seed) for seed in range(1, count + 1)]
        made = [draft for draft in drafts if draft is not None]
        vectors = [_vector(sketch, draft.trace) for draft in made]
        functions = [entry_function(draft.candidate.sch.mod) for draft in made]
        return ReplayedSketch(mod, sketch, postprocs, vectors, functions)

    def asked_for(self, vectors: Sequence[list[Any]]) -> ReplayedSketch:
        """Candidates with given decisions; those that do not fit are repaired by the replay."""
        replayer = _replayer(self.mod, self.postprocs)
        insts = self.sketch.trace.insts
        kept: list[list[Any]] = []
        functions: list[PrimFunc] = []
        for vector in vectors:
            chosen = {insts[at]: each for at, each in zip(self.sketch.places, vector, strict=True)}
            draft = replayer.replay(Trace(insts, chosen), 1)
            if draft is not None:
                kept.append(vector)
                functions.append(entry_function(draft.candidate.sch.mod))
        return ReplayedSketch(self.mod, self.sketch, self.postprocs, kept, functions)

    def model(self) -> SpaceModel:
        """The algebra of the sketch."""
        return SpaceModel(self.mod, self.sketch.trace, self.postprocs)


def _replayer(mod: IRModule, postprocs: Sequence[Postproc]) -> Replayer:
    return Replayer(mod, (), postprocs, SearchStatistics(), logging.getLogger("tilewright.test"))


def _vector(sketch: Sketch, trace: Trace) -> list[Any]:
    return [trace.decisions[trace.insts[place]] for place in sketch.places]


def task_and_sketches(
    func: PrimFunc, target: Target, space: str
) -> tuple[SpaceTask, list[Schedule]]:
    """A task for a strategy, and the sketches of its space."""
    mod = IRModule({"main": func})
    generator = create_space_generator(space)
    task = SpaceTask(mod, target, space_generator=generator)
    generator._initialize_with_tune_context(task)
    return task, generator.generate_design_space(mod)


def sketches_of(
    func: PrimFunc, target: Target, space: str
) -> tuple[IRModule, list[Sketch], Sequence[Postproc]]:
    """The sketches of a function, and the post-processors of their space."""
    task, made = task_and_sketches(func, target, space)
    assert task.mod is not None
    assert task.space_generator is not None
    sketches = [Sketch(number, each) for number, each in enumerate(made)]
    return task.mod, sketches, tuple(task.space_generator.postprocs)


@dataclass(frozen=True)
class Difference:
    """A quantity of a candidate that the algebra says otherwise than its replay."""

    row: int
    quantity: str  # "nests", "loops", "footprints", "dependence", "strides" or "numbers"
    nest: str
    text: str
    store_to: str = ""  # the buffer that the nest writes
    bytes_below: tuple[int, ...] = ()  # of footprints, by the algebra

    def __str__(self) -> str:
        return f"row {self.row}: {self.nest} {self.text}"


def differences(replayed: ReplayedSketch, model: SpaceModel) -> list[Difference]:
    """All that the algebra says otherwise than a replay: loops, footprints, shares, marks."""
    columns = model.columns(replayed.vectors)
    found: list[Difference] = []
    for case, rows in model.cases(columns):
        if not isinstance(case, StructureCase):
            raise NotInterpreted(case.reason)
        values = [
            nest({name: columns[name][rows] for name in nest.inputs}, len(rows))
            for nest in case.nests
        ]
        for place, row in enumerate(rows):
            compared = _Candidate(case.views, values, place)
            own = list(nests_in(read(replayed.functions[int(row)])))
            found += [Difference(int(row), *each) for each in compared.against(own)]
    return found


def prior_differences(replayed: ReplayedSketch, model: SpaceModel, machine: Machine) -> list[str]:
    """Where the prior on arrays is another than that of a replayed candidate."""
    scores = BatchScorer(model, machine).score(model.columns(replayed.vectors))
    expected = np.log2([estimate(func, machine) for func in replayed.functions])
    wrong = np.flatnonzero(np.abs(scores.prior - expected) > 1e-9)
    return [f"{replayed.vectors[row]}: {scores.prior[row]}, not {expected[row]}" for row in wrong]


def loops_of_slots(
    view: NestView, values: NestColumns, at: int
) -> list[tuple[int, ForKind, list[int]]]:
    """The loops that slots make: extents, kinds, slots."""
    found: list[tuple[int, ForKind, list[int]]] = []
    joins = ForKind.SERIAL  # a kind that nothing joins
    for number, slot in enumerate(view.slots):
        extent = int(values.extents[number, at])
        if extent == 1:
            continue
        kind, mark = slot.kind, ForKind.SERIAL
        if values.in_parallel[number, at]:
            kind = mark = ForKind.PARALLEL
        elif values.in_vector[number, at]:
            kind = mark = ForKind.VECTORIZED
        if found and mark is joins and mark is not ForKind.SERIAL:
            before, _, slots = found[-1]
            found[-1] = (before * extent, kind, [*slots, number])
        else:
            found.append((extent, kind, [number]))
        joins = mark
    return found


_Lines: TypeAlias = Iterator[tuple[Any, ...]]  # all but the row of a `Difference`
_AT_ONCE = (ForKind.PARALLEL, ForKind.THREAD_BINDING)


class _Candidate:
    """One candidate of a population."""

    def __init__(
        self, views: Sequence[NestView], values: Sequence[NestColumns], place: int
    ) -> None:
        self._nests = list(zip(views, values, strict=True))
        self._place = place

    def against(self, replayed: Sequence[StoreNest]) -> _Lines:
        """How its nests differ from those that were read; order counts within a stage only."""
        left = list(replayed)
        if len(left) != len(self._nests):
            yield "nests", "program", f"has {len(self._nests)} nests, not {len(left)}"
            return
        for view, values in self._nests:
            same = next((nest for nest in left if _is_of(view, nest)), None)
            if same is None:
                yield "nests", view.name, "is not there"
            else:
                left.remove(same)
                yield from self._nest(view, values, same)

    def _nest(self, view: NestView, values: NestColumns, nest: StoreNest) -> _Lines:
        loops = [loop for loop in nest.loops if loop.extent > 1]
        groups = loops_of_slots(view, values, self._place)
        mine = [(extent, kind, _tag(view, slots)) for extent, kind, slots in groups]
        theirs = [(loop.extent, loop.kind, loop.tag) for loop in loops]
        if mine != theirs:
            yield "loops", view.name, f"has loops {mine}, not {theirs}"
            return
        yield from self._accesses(view, values, nest, loops, [slots for _, _, slots in groups])
        numbers = (
            ("share", float(values.share[self._place]), nest.share),
            ("operations", float(values.operations[self._place]), nest.operations),
            ("reduces", view.is_reduction, nest.is_reduction),
            ("packs weights", view.packs_weights, nest.packs_weights),
            (
                "unroll step",
                float(values.unroll_step[self._place]),
                max((loop.unroll_step for loop in nest.loops), default=0),
            ),
        )
        for name, own, expected in numbers:
            if abs(own - expected) > 1e-9:
                yield "numbers", view.name, f"has {name} {own}, not {expected}"

    def _accesses(
        self,
        view: NestView,
        values: NestColumns,
        nest: StoreNest,
        loops: Sequence[Loop],
        groups: Sequence[Sequence[int]],
    ) -> _Lines:
        at = self._place
        depths = [*[slots[0] for slots in groups], len(view.slots)]
        for number, (own, read_one) in enumerate(
            zip(view.accesses, (nest.store, *nest.loads), strict=True)
        ):
            name = own.buffer.name
            mine = [int(values.footprints[number, depth, at]) for depth in depths]
            theirs = [int(size) for size in read_one.footprints(loops)]
            if mine != theirs:
                text = f"touches {mine} bytes of {name}, not {theirs}"
                yield "footprints", view.name, text, view.store.buffer.name, tuple(mine)
            moves = [bool(values.depends[number, list(slots), at].any()) for slots in groups]
            moved = [read_one.depends_on(loop) for loop in loops]
            if moves != moved:
                text = f"moves in {name} with loops {moves}, not {moved}"
                yield "dependence", view.name, text
            for loop, slots in zip(loops, groups, strict=True):
                step = int(values.strides[number, slots[-1], at])
                if loop.kind in _AT_ONCE or len(slots) > 1:
                    continue  # nobody asks for their strides
                known = read_one.stride(loop)
                if step != abs(known or 0):
                    text = f"steps by {step} in {name} along a loop, not by {known}"
                    yield "strides", view.name, text


def _tag(view: NestView, slots: Sequence[int]) -> str:
    """The thread axis of a loop that slots make."""
    return view.slots[slots[0]].tag


def _is_of(view: NestView, nest: StoreNest) -> bool:
    return (
        view.store.buffer.name == nest.store.buffer.name
        and view.is_reduction == nest.is_reduction
        and len(view.loads) == len(nest.loads)
    )
