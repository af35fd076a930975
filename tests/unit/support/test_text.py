from __future__ import annotations

from hypothesis import given, strategies as st

from tilewright.support.text import counted, render_excerpt

SOURCE = ["def f():", "    for i in T.grid(8, 8):", "        B[i] = A[j]"]


def test_caret_under_one_name() -> None:
    expected = """\
2 |     for i in T.grid(8, 8):
3 |         B[i] = A[j]
  |                  ^ undefined variable 'j'"""
    assert render_excerpt(SOURCE, 3, 17, 18, "undefined variable 'j'") == expected


def test_caret_to_the_end_of_the_line() -> None:
    expected = """\
1 | def f():
  | ^^^^^^^^"""
    assert render_excerpt(SOURCE, 1, 0) == expected


def test_context_and_wide_numbers() -> None:
    lines = [f"line{number}" for number in range(1, 13)]
    expected = """\
 8 | line8
 9 | line9
10 | line10
   | ^^^^ here"""
    assert render_excerpt(lines, 10, 0, 4, "here", context=2) == expected


def test_tabs_keep_the_caret_in_place() -> None:
    assert render_excerpt(["\tx = y"], 1, 5, 6) == "1 |     x = y\n  |         ^"


def test_a_place_outside_is_moved_inside() -> None:
    assert render_excerpt(["abc"], 7, 9, 12, "end") == "1 | abc\n  |    ^ end"
    assert render_excerpt([], 1, 0, 0, "only the note") == "only the note"


@given(st.lists(st.text(max_size=9), max_size=4), st.integers(-2, 9), st.integers(-2, 12))
def test_never_fails(lines: list[str], line_no: int, col: int) -> None:
    assert "note" in render_excerpt(lines, line_no, col, col + 2, "note")


def test_nouns_agree_with_their_number() -> None:
    assert [counted(number, "trial") for number in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert counted(1, "sketch", "sketches") == "1 sketch"
    assert counted(3, "sketch", "sketches") == "3 sketches"
