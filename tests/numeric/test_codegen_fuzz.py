"""Random programs: the compiled code must do what the oracle does, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, given, settings, strategies as st

from tilewright.driver import build
from tilewright.testing import oracle
from tilewright.testing.ir_fuzzer import FuzzOptions, random_case
from tilewright.testing.kernels import assert_close, assert_same

SEEDS = st.integers(0, 10**9)
FRESH = (Phase.explicit, Phase.generate)  # a smaller seed is not a smaller program


def cases(usual: int) -> int:
    """How many programs: as many as `make fuzz` asks for, else a few."""
    return settings().max_examples if settings.get_current_profile_name() == "fuzz" else usual


@given(seed=SEEDS)
@settings(max_examples=cases(30), phases=FRESH)
def test_serial_programs(seed: int) -> None:
    case = random_case(seed, FuzzOptions(parallel=False, statements=6))
    assert_same(case.func, *case.arguments)


@given(seed=SEEDS)
@settings(max_examples=cases(25), phases=FRESH)
def test_parallel_programs(seed: int) -> None:
    case = random_case(seed, FuzzOptions(parallel=True, statements=6))
    assert_same(case.func, *case.arguments)


@given(seed=SEEDS)
@settings(max_examples=cases(20), phases=FRESH)
def test_programs_that_went_through_the_whole_pipeline(seed: int) -> None:
    """Not with small floats: they are computed with more precision than the program says."""
    case = random_case(seed, FuzzOptions(small_floats=False, statements=6))
    expected, actual = (
        [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments] for _ in range(2)
    )
    oracle.run(case.func, *expected)
    build(case.func)(*actual)
    for got, want in zip(actual, expected, strict=True):
        if isinstance(want, np.ndarray):
            assert_close(got, want, 0, f"seed {seed}")


def test_programs_are_made_from_their_seed() -> None:
    assert str(random_case(7).func) == str(random_case(7).func)
    assert str(random_case(7).func) != str(random_case(8).func)
