"""Compares footprints from the algebra with boxes of touched elements by brute force."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.algebra.decisions import Columns
from tilewright.algebra.legality import verdicts_of
from tilewright.algebra.model import StructureCase
from tilewright.algebra.population import random_population, vector_at
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.enumerated_boxes import enumerated_nests
from tilewright.testing.space_algebra import ReplayedSketch, loops_of_slots, sketches_of


def boxes_that_differ(
    func: PrimFunc, target: Target, space: str, sketch: int, count: int
) -> list[str]:
    """Footprints that are not what enumeration says, of legal candidates of a sketch.

    The sketch is taken modulo their number. Raises `NotInterpreted` where it is not covered.
    """
    mod, sketches, postprocs = sketches_of(func, target, space)
    empty = ReplayedSketch(mod, sketches[sketch % len(sketches)], postprocs, [], [])
    model = empty.model()
    columns = random_population(model.decisions, 400, np.random.default_rng(5))
    legal = np.flatnonzero(verdicts_of(model, columns).legal)[:count]
    found: list[str] = []
    for case, rows in model.cases(columns):
        if isinstance(case, StructureCase):
            for row in set(rows.tolist()) & set(legal.tolist()):
                vector = vector_at(model.decisions, columns, row)
                (program,) = empty.asked_for([vector]).functions
                one = {name: column[[row]] for name, column in columns.items()}
                found += [f"{vector}: {line}" for line in _differing(case, one, program)]
    return found


def _differing(case: StructureCase, columns: Columns, program: PrimFunc) -> Iterator[str]:
    by_store: dict[tuple[str, int], list[list[list[int]]]] = {}
    for each in enumerated_nests(program):
        key = each.store.buffer.name, len(each.bytes_below)
        by_store.setdefault(key, []).append(each.bytes_below)
    for view, nest in zip(case.views, case.nests, strict=True):
        values = nest({name: columns[name] for name in nest.inputs}, 1)
        starts = [slots[0] for _, _, slots in loops_of_slots(view, values, 0)]
        depths = [*starts, len(view.slots)]
        mine = [[int(n) for n in rows[depths, 0]] for rows in values.footprints]
        theirs = by_store[view.store.buffer.name, len(mine)]
        if mine not in theirs:
            yield f"{view.name} touches {mine}, not {theirs}"
