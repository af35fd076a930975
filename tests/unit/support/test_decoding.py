"""Whatever is wrong with stored data becomes one error about one place."""

from __future__ import annotations

import struct

import msgspec
import pytest

from tilewright.errors import IRError, ScheduleError, TilewrightError
from tilewright.support.decoding import decoding


def endless(depth: int) -> int:
    return endless(depth + 1)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda: b"\xff".decode(), "'utf-8' codec can't decode byte 0xff in position 0"),
        (lambda: msgspec.json.decode(b"{"), "Input data was truncated"),
        (lambda: struct.unpack("<Q", b""), "unpack requires a buffer of 8 bytes"),
        (lambda: dict[str, int]()["trace"], "KeyError('trace')"),
        (lambda: [][7], "IndexError('list index out of range')"),
        (lambda: int("x"), "invalid literal for int() with base 10: 'x'"),
        (lambda: len(3), "TypeError("),  # type: ignore[arg-type] # that is the mistake
        (lambda: (3).nothing, "AttributeError("),  # type: ignore[attr-defined] # likewise
        (lambda: float(10**400), "OverflowError("),
        (lambda: endless(0), "nested too deeply"),
    ],
)
def test_the_error_names_the_place(spoil: object, reason: str) -> None:
    assert callable(spoil)
    with pytest.raises(IRError) as caught, decoding("row 3", IRError):
        spoil()
    assert str(caught.value).startswith(f"row 3: {reason}")
    assert caught.value.__cause__ is not None


def test_our_own_sentences() -> None:
    with pytest.raises(IRError, match=r"^row 3: no such block$"), decoding("row 3", IRError):
        raise ScheduleError("no such block")
    # What is of the wanted kind already says where it is.
    with pytest.raises(IRError, match=r"^no such node$"), decoding("row 3", IRError):
        raise IRError("no such node")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_is_not_about_the_data_passes(error: type[BaseException]) -> None:
    with pytest.raises(error), decoding("row 3", TilewrightError):
        raise error
