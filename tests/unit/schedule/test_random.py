"""The random engine gives TVM's numbers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.primitives.sample_perfect_tile import draw_tile, factorize
from tilewright.schedule.trace.random import MODULUS, RandomEngine, normalize_seed

SPREAD = range(1, MODULUS, MODULUS // 40)


def test_states_of_seed_42() -> None:
    engine = RandomEngine(42)
    drawn = [engine.draw() for _ in range(6)]
    assert drawn == [2027382, 1226992407, 551494037, 961371815, 1404753842, 2076553157]


def test_forked_seeds_of_seed_42() -> None:
    engine = RandomEngine(42)
    assert [engine.fork_seed() for _ in range(3)] == [431226885, 860742923, 805354324]
    assert RandomEngine(42).fork().state == 431226885


def test_tiles_of_seed_42() -> None:
    four, two = RandomEngine(42), RandomEngine(42)
    assert [_limited(four, 4) for _ in range(6)] == [
        [1, 8, 4, 16],
        [32, 4, 4, 1],
        [4, 16, 1, 8],
        [4, 16, 2, 4],
        [2, 8, 16, 2],
        [32, 8, 1, 2],
    ]
    expected = [[32, 16], [16, 32], [64, 8], [512, 1], [64, 8], [128, 4]]
    assert [_limited(two, 2) for _ in range(6)] == expected


def _limited(engine: RandomEngine, n: int) -> list[int]:
    while True:
        tile = draw_tile(engine, 512, n)
        if tile[-1] <= 64:
            return tile


def test_categories_of_seed_42() -> None:
    engine = RandomEngine(42)
    drawn = [engine.discrete([0.25] * 4) for _ in range(10)]
    assert drawn == [2, 1, 3, 2, 0, 2, 0, 1, 3, 2]


def test_one_choice_draws_nothing() -> None:
    engine = RandomEngine(7)
    assert engine.integer(3, 4) == 3
    assert engine.discrete([0.3]) == 0
    assert draw_tile(engine, 12, 1) == [12]
    assert draw_tile(engine, 1, 3) == [1, 1, 1]
    assert engine.state == 7


def test_seeds() -> None:
    assert normalize_seed(0) == 1
    assert normalize_seed(MODULUS) == 1
    assert normalize_seed(5) == 5
    assert 0 < normalize_seed(-1) < MODULUS
    text = "a seed is -1 or a number from 0 to 2147483646, got -3"
    with pytest.raises(ScheduleError, match=text):
        normalize_seed(-3)


def test_schedules_share_the_engine(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=42)
    assert sch.fork_seed() == 431226885
    sch.seed(42)
    twin = sch.copy()
    assert twin.random.state == 431226885
    assert sch.random.state == 2027382


@given(st.integers(1, MODULUS - 1), st.integers(1, 400), st.integers(1, 6))
def test_tiles_multiply_to_the_extent(seed: int, extent: int, n: int) -> None:
    tile = draw_tile(RandomEngine(seed), extent, n)
    assert len(tile) == n
    product = 1
    for factor in tile:
        product *= factor
    assert product == extent


@given(st.integers(1, 10**6))
def test_factors_are_prime_and_complete(number: int) -> None:
    product = 1
    for prime, count in factorize(number):
        assert all(prime % divisor for divisor in range(2, min(prime, 1001)))
        product *= prime**count
    assert product == number


def test_a_large_prime_goes_to_either_side() -> None:
    prime = 65537
    assert factorize(prime) == ((prime, 1),)
    sides = {tuple(draw_tile(RandomEngine(seed), prime, 2)) for seed in SPREAD}
    assert sides == {(1, prime), (prime, 1)}
    slots = {tuple(draw_tile(RandomEngine(seed), prime, 3)) for seed in SPREAD}
    assert slots == set(itertools.permutations((1, 1, prime)))


@given(st.integers(1, 2**31 - 2), st.integers(1, 12), st.data())
def test_drawn_numbers_are_different(seed: int, count: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(1, count))
    drawn = RandomEngine(seed).without_replacement(count, chosen)
    assert len(set(drawn)) == chosen
    assert all(0 <= number < count for number in drawn)


def test_multinomial_follows_its_weights() -> None:
    sample = RandomEngine(3).multinomial([1.0, 0.0, 3.0])
    counts = [0, 0, 0]
    for _ in range(4000):
        counts[sample()] += 1
    assert counts[1] == 0
    assert 0.2 < counts[0] / 4000 < 0.3
