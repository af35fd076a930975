from __future__ import annotations

import pytest

from tilewright.support.suggestions import closest, did_you_mean


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("vectorise", "vectorize"),
        ("VECTORIZE", "vectorize"),
        ("cache_read", "cache-read"),
        ("zzz", None),
    ],
)
def test_closest(word: str, expected: str | None) -> None:
    assert closest(word, ["vectorize", "cache-read", "unroll"]) == expected


def test_of_two_spellings_the_first_wins() -> None:
    assert closest("icelake-servr", ["icelake-server", "icelake_server"]) == "icelake-server"


def test_hint_texts() -> None:
    known = ["llvm", "cuda"]
    assert did_you_mean("lvm", known) == "; did you mean 'llvm'?"
    assert did_you_mean("zzz", known) == "; known: cuda, llvm"
    assert did_you_mean("zzz", known, list_all=False) == ""
    assert did_you_mean("zzz", []) == ""
