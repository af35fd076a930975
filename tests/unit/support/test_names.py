from __future__ import annotations

from hypothesis import given, strategies as st

from tilewright.support.names import NameSupply


def test_fresh_numbers_from_one() -> None:
    names = NameSupply()
    assert [names.fresh("x") for _ in range(3)] == ["x", "x_1", "x_2"]


def test_fresh_skips_reserved_names() -> None:
    names = NameSupply(["x", "x_1", "x_2"])
    assert names.fresh("x") == "x_3"
    assert "x_3" in names
    assert "x_4" not in names


@given(st.lists(st.sampled_from(["a", "a_1", "a_1_1", "b"]), max_size=30))
def test_never_hands_out_a_name_twice(bases: list[str]) -> None:
    names = NameSupply()
    given_out = [names.fresh(base) for base in bases]
    assert len(set(given_out)) == len(bases)


def test_names_of_a_block_are_free_behind_it() -> None:
    names = NameSupply(["x"])
    with names.block():
        assert [names.fresh(base) for base in "xyy"] == ["x_1", "y", "y_1"]
    assert [names.fresh(base) for base in "xyy"] == ["x_1", "y", "y_1"]
