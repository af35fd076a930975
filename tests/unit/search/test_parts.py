"""Evolution, picking, counting and recognising, one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import TuneError
from tilewright.records import TuningRecord, Workload, args_info_of
from tilewright.schedule import Schedule
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search import SearchStatistics
from tilewright.search.evolution import mutator_chances, parent_weights, pick_with_eps_greedy
from tilewright.search.measured import KnownCandidates, MeasuredResults, trace_key
from tilewright.search.replayer import Draft
from tilewright.space.base import Postproc
from tilewright.target import Target
from tilewright.testing.small_search import MODULE, tile_two

_SCH = Schedule(MODULE, seed=1)
_ARGS = args_info_of(MODULE)


def draft(number: int, score: float | None = None) -> Draft:
    """A draft that is only told apart by its number."""
    made = object.__new__(Draft)
    made.shash, made.score = number, score
    return made


# --- picking --------------------------------------------------------------------------------------


def pick(bests: list[int], others: list[int], count: int, eps: float, known: set[int]) -> list[int]:
    picked = pick_with_eps_greedy(
        RandomEngine(1),
        KnownCandidates(known),
        [draft(number) for number in bests],
        [draft(number) for number in others],
        count,
        eps,
    )
    return [one.shash for one in picked]


def test_best_ones_come_first() -> None:
    assert pick([1, 2, 3, 4], [11, 12], 4, 0.0, set()) == [1, 2, 3, 4]


def test_random_ones_come_last() -> None:
    picked = pick([1, 2, 3, 4], [11, 12, 13], 4, 0.5, set())
    assert picked[:2] == [1, 2]
    assert set(picked[2:]) <= {11, 12, 13}


def test_each_source_stands_in_for_the_other() -> None:
    assert set(pick([1, 2], [11, 12, 13], 4, 0.0, set())) >= {1, 2}
    assert pick([1, 2, 3, 4], [], 4, 0.5, set()) == [1, 2, 3, 4]


@given(
    bests=st.lists(st.integers(0, 9), max_size=12),
    others=st.lists(st.integers(0, 9), max_size=12),
    known=st.sets(st.integers(0, 9)),
    count=st.integers(1, 10),
    eps=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_batches_are_as_full_as_can_be(
    bests: list[int], others: list[int], known: set[int], count: int, eps: float
) -> None:
    picked = pick(bests, others, count, eps, known)
    assert len(set(picked)) == len(picked)
    assert not known & set(picked)
    assert len(picked) == min(count, len((set(bests) | set(others)) - known))


# --- parents and mutators -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0, 3.0], [1.0, 3.0]),
        ([1.0, -3.0], [1.0, 0.0]),
        ([-1.0, -3.0, -2.0], [2.0, 0.0, 1.0]),
        ([0.0, 0.0], [1.0, 1.0]),
        ([None, 2.0], [0.0, 2.0]),
        ([None, None], [1.0, 1.0]),
        ([float("-inf"), -1.0], [1.0, 1.0]),
    ],
)
def test_parent_weights(scores: list[float | None], expected: list[float]) -> None:
    assert parent_weights([draft(0, score) for score in scores]) == expected


def test_mutator_chances() -> None:
    assert mutator_chances([3.0, 1.0], 0.8) == pytest.approx([0.2, 0.6, 0.2])
    assert mutator_chances([], 0.8) == [1.0]
    assert mutator_chances([0.0], 0.8) == [1.0]
    with pytest.raises(TuneError, match=r"must not be negative, got \[-1.0\]"):
        mutator_chances([-1.0], 0.8)


# --- counting -------------------------------------------------------------------------------------


class First(Postproc):
    def apply(self, sch: Schedule) -> bool:
        return True


class Second(First):
    pass


def counted() -> SearchStatistics:
    return SearchStatistics(
        proposed=10,
        legal=4,
        sent=2,
        duplicates=1,
        replay_failures=Counter({"split: ExpiredHandle": 2}),
        rejected=Counter({"First": 1}),
        postproc_failures=Counter({"Second: KeyError": 3}),
        mutator_failures=Counter({"MutateUnroll: ValueError": 1}),
    )


def test_summary_has_a_line_a_post_processor() -> None:
    assert counted().summary([First(), Second()]).splitlines() == [
        "Postproc #0 [First]: 1 failure(s)",
        "Postproc #1 [Second]: 3 failure(s)",
        "Replay [split: ExpiredHandle]: 2 failure(s)",
        "Mutator [MutateUnroll: ValueError]: 1 failure(s)",
    ]


def test_reasons() -> None:
    assert counted().reasons() == {
        "post-processor Second: KeyError": 3,
        "replay: split: ExpiredHandle": 2,
        "rejected by First": 1,
        "duplicate": 1,
    }
    assert SearchStatistics().reasons() == {}


def test_counts_go_to_json_and_back() -> None:
    assert SearchStatistics.from_json(counted().as_json()) == counted()


def test_counts_since() -> None:
    later = counted()
    later.proposed += 5
    later.rejected["Second"] += 2
    difference = later.since(counted())
    assert difference.proposed == 5
    assert difference.rejected == {"Second": 2}
    assert difference.replay_failures == {}


# --- recognising ----------------------------------------------------------------------------------


def test_traces_are_known_without_their_post_processing() -> None:
    sch = Schedule(MODULE, seed=3)
    tile_two(sch)
    assert sch.trace is not None
    before = trace_key(sch.trace)
    sch.enter_postproc()
    sch.annotate(sch.get_block("matmul"), "note", 1)
    assert trace_key(sch.trace) == before
    other = Schedule(MODULE, seed=4)
    tile_two(other)
    assert other.trace is not None
    assert trace_key(other.trace) != before


def test_known_candidates_go_to_json_and_back() -> None:
    known = KnownCandidates([1, 2**63], ["abc"])
    again = KnownCandidates()
    again.include(known.as_json())
    assert (again.hashes, again.traces) == (known.hashes, known.traces)
    assert len(again) == 3


def test_records_are_known_by_hash_or_trace() -> None:
    assert _SCH.trace is not None
    workload = Workload(MODULE, 0)
    measured = MeasuredResults()
    measured.add_record(TuningRecord(_SCH.trace, workload, extra={"candidate_hash": "ff"}))
    assert (set(measured.by_hash), set(measured.by_trace)) == ({255}, set())
    measured.add_record(TuningRecord(_SCH.trace, workload))
    assert set(measured.by_trace) == {trace_key(_SCH.trace)}
    assert Draft(_SCH, _ARGS) in KnownCandidates(measured.by_hash, measured.by_trace)


def test_machines() -> None:
    assert _SCH.trace is not None
    here = Target("llvm -mcpu=haswell -num-cores=2")
    record = TuningRecord(_SCH.trace, Workload(MODULE, 0), target=here)
    assert record.is_for(here)
    assert record.is_for(None)
    assert not record.is_for(Target("llvm -mcpu=haswell -num-cores=4"))
