"""Sketches and the drafts that need not be made again."""

from __future__ import annotations

import logging

import pytest

from tilewright.errors import TuneError
from tilewright.records import args_info_of
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.search import SearchStatistics
from tilewright.search.replayer import Draft, DraftCache, Replayer, Sketch, same_steps
from tilewright.space.mutators import MutateCategorical, MutateTileSize
from tilewright.testing.small_search import MODULE, tile_two


def lists(sch: Schedule) -> None:
    """Two numbers from lists: 6 programs."""
    i, j, _ = sch.get_loops(sch.get_block("matmul"))
    sch.split(i, [None, sch.sample_categorical([2, 4, 8], [0.2, 0.3, 0.5])])
    sch.split(j, [None, sch.sample_categorical([1, 16], [0.5, 0.5])])


def sketch_of(space: object, number: int = 0) -> Sketch:
    sch = Schedule(MODULE, seed=1)
    space(sch)  # type: ignore[operator]
    return Sketch(number, sch)


def replayer() -> Replayer:
    logger = logging.getLogger("tilewright.test")
    return Replayer(MODULE, args_info_of(MODULE), (), SearchStatistics(), logger)


def test_decisions_are_open() -> None:
    sketch = sketch_of(lists)
    assert sketch.trace.decisions == {}
    kinds = [sketch.trace.insts[place].primitive.kind for place in sketch.places]
    assert kinds == ["SampleCategorical", "SampleCategorical"]


def test_sketch_needs_a_trace() -> None:
    sch = Schedule(MODULE)
    sch.trace = None
    with pytest.raises(TuneError, match="records no trace"):
        Sketch(0, sch)


@pytest.mark.parametrize("seed", [1, 7, 12345, 2**30])
def test_draws_are_those_of_a_replay(seed: int) -> None:
    sketch = sketch_of(lists, number=3)
    draft = replayer().replay(sketch.trace, seed)
    assert draft is not None
    assert sketch.drawn(seed) == sketch.origin(draft.trace)


def test_draws_that_depend_on_the_program_are_not_foreseen() -> None:
    assert sketch_of(tile_two).drawn(1) is None


def test_open_decisions_have_no_origin() -> None:
    sketch = sketch_of(lists)
    assert sketch.origin(sketch.trace) is None


def test_random_drafts_are_made_once() -> None:
    maker, sketch = replayer(), sketch_of(lists)
    drafts = [maker.draw(sketch, seed * 7919) for seed in range(1, 40)]
    assert len({id(draft) for draft in drafts}) == 6
    assert len({draft.shash for draft in drafts if draft}) == 6
    assert (maker.statistics.proposed, maker.statistics.legal) == (39, 39)


def test_mutants_are_made_once() -> None:
    maker, sketch = replayer(), sketch_of(tile_two)
    parent = maker.draw(sketch, 1)
    assert parent is not None
    mutants = []
    for seed in range(1, 40):
        trace = MutateTileSize().apply(parent.trace, seed * 7919)
        if trace is not None:
            mutants.append(maker.mutate(parent, trace, seed))
    hashes = {mutant.shash for mutant in mutants if mutant}
    assert len({id(mutant) for mutant in mutants}) == len(hashes)
    assert all(mutant is not None and mutant.sketch is sketch for mutant in mutants)


def test_drafts_equal_those_made_anew() -> None:
    maker, sketch = replayer(), sketch_of(lists)
    parent = maker.draw(sketch, 1)
    assert parent is not None
    for seed in range(1, 20):
        trace = MutateCategorical().apply(parent.trace, seed * 7919)
        assert trace is not None
        cached, anew = maker.mutate(parent, trace, seed), replayer().replay(trace, seed)
        assert cached is not None
        assert anew is not None
        assert cached.shash == anew.shash


def test_mutants_with_other_steps_are_not_confused() -> None:
    maker, sketch = replayer(), sketch_of(tile_two)
    parent = maker.draw(sketch, 1)
    assert parent is not None
    steps = parent.trace.insts[: len(sketch.trace.insts)]
    without_reorder = Trace(steps[:-1], parent.trace.decisions)
    other = maker.mutate(parent, without_reorder, 1)
    assert other is not None
    assert other.shash != parent.shash
    assert other.sketch is None


def test_same_steps() -> None:
    sch = Schedule(MODULE, seed=1)
    tile_two(sch)
    main = sch.trace
    assert main is not None
    before = Trace(main.insts, main.decisions)
    sch.enter_postproc()
    assert same_steps(main, before)
    assert same_steps(before, before)
    assert not same_steps(before, main)  # the mark of post-processing is a step too many
    assert not same_steps(main, Trace(before.insts[:-1]))
    last = before.insts[-1]
    twin = Instruction(last.primitive, last.inputs, last.attrs, last.outputs)
    assert not same_steps(main, Trace([*before.insts[:-1], twin]))


def test_cache_forgets_what_was_not_asked_for() -> None:
    drafts = [Draft(Schedule(MODULE), ()) for _ in range(3)]
    cache = DraftCache(capacity=2)
    cache.put((0, (0,)), drafts[0])
    cache.put((0, (1,)), drafts[1])
    assert cache.get((0, (0,))) is drafts[0]
    cache.put((0, (2,)), drafts[2])
    assert cache.get((0, (1,))) is None
    assert cache.get((0, (0,))) is drafts[0]
    cache.put(None, drafts[1])
    assert cache.get(None) is None
