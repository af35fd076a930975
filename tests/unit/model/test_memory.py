"""Places of intermediate values: whatever lives at the same time lies apart."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, strategies as st

from tilewright.model.memory import ALIGNMENT, Lifetime, plan_memory

_LIFETIMES = st.lists(
    st.builds(
        lambda count, first, length: Lifetime(count, first, first + length),
        st.integers(0, 5000),
        st.integers(0, 30),
        st.integers(0, 10),
    ),
    max_size=25,
)


@given(_LIFETIMES)
def test_nothing_overlaps_that_lives_at_the_same_time(lifetimes: list[Lifetime]) -> None:
    plan = plan_memory(dict(enumerate(lifetimes)))
    places = {n: (plan.offsets[n], plan.offsets[n] + one.bytes) for n, one in enumerate(lifetimes)}
    for a, b in combinations(places, 2):
        if lifetimes[a].overlaps(lifetimes[b]):
            assert places[a][1] <= places[b][0] or places[b][1] <= places[a][0]
    for start, end in places.values():
        assert start % ALIGNMENT == 0
        assert 0 <= start <= end <= plan.bytes


@given(_LIFETIMES)
def test_the_plan_is_no_larger_than_all_values_together(lifetimes: list[Lifetime]) -> None:
    plan = plan_memory(dict(enumerate(lifetimes)))
    assert plan.bytes <= sum(max(one.bytes, 1) + ALIGNMENT for one in lifetimes)


def test_a_chain_takes_two_places() -> None:
    plan = plan_memory({n: Lifetime(640, n, n + 1) for n in range(10)})
    assert plan.bytes == 2 * 640


def test_values_of_one_step_lie_apart() -> None:
    plan = plan_memory({n: Lifetime(1, 3, 3) for n in range(3)})
    assert sorted(plan.offsets.values()) == [0, ALIGNMENT, 2 * ALIGNMENT]
