"""Exceptions in code of the user's own: told from ours, shown with their lines, once."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.errors import MemberError, ScheduleError
from tilewright.schedule import Schedule
from tilewright.support.member_failures import MemberFailures
from tilewright.testing.small_search import matmul


class Mine:
    """A class of the user's own."""


def raised_by(function: Callable[[], object]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it does not fail")


def ours() -> Exception:
    """An error of ours, raised in a call that the user made: here, outside of any member."""
    error = raised_by(lambda: Schedule(matmul).get_block("nowhere"))
    below = error.__traceback__
    while below is not None and "tilewright" not in below.tb_frame.f_code.co_filename:
        below = below.tb_next
    while below is not None and not below.tb_frame.f_globals["__name__"].startswith("tilewright"):
        below = below.tb_next
    return error.with_traceback(below)


def divide() -> float:
    return 1 / (2 - 2)


def test_it_stops_with_the_line() -> None:
    error = raised_by(divide)
    with pytest.raises(MemberError) as caught:
        MemberFailures().take("cost model Mine", error, Mine())
    first, *lines, last = str(caught.value).splitlines()
    assert first == "cost model Mine failed: ZeroDivisionError: division by zero"
    assert any(f'File "{__file__}", line ' in line and "in divide" in line for line in lines)
    assert "    return 1 / (2 - 2)" in lines
    assert last == "keep_going=True (--keep-going) tunes without it"
    assert caught.value.__cause__ is error


def test_it_passes_on_what_has_stopped_the_run_below() -> None:
    inner = MemberError("schedule rule Mine failed")
    with pytest.raises(MemberError) as caught:
        MemberFailures().take("search strategy Other", inner)
    assert caught.value is inner


def test_whoever_keeps_going_is_shown_it_once() -> None:
    shown: list[str] = []
    failures = MemberFailures(keep_going=True, show=shown.append)
    for _ in range(3):
        assert failures.take("cost model Mine", raised_by(divide), Mine())
    assert failures.take("cost model Mine", raised_by(lambda: [0][1]), Mine())
    assert len(shown) == 2
    assert shown[0].endswith("\nit is skipped, and later failures like it without a message")
    assert "return 1 / (2 - 2)" in shown[0]


def test_bugs_of_ours_are_left_to_others() -> None:
    shown: list[str] = []
    for keep_going in (True, False):
        failures = MemberFailures(keep_going=keep_going, show=shown.append)
        assert not failures.take("schedule rule AutoInline", ours(), matmul)
    assert not shown


def test_a_class_of_the_users_own_is_enough() -> None:
    with pytest.raises(MemberError, match="mutator Mine failed: "):
        MemberFailures().take("mutator Mine", ours(), Mine())


def test_a_library_is_not_the_users() -> None:
    def wrong() -> object:
        return np.linalg.inv(np.zeros((2, 2)))

    with pytest.raises(MemberError) as caught:
        MemberFailures().take("cost model Mine", raised_by(wrong))
    assert "return np.linalg.inv(np.zeros((2, 2)))" in str(caught.value)
    assert "site-packages" not in str(caught.value)


def test_clones_report_to_the_same_place() -> None:
    failures = MemberFailures(show=lambda text: None)
    assert copy.deepcopy([failures])[0] is failures


def test_errors_of_primitives_in_the_users_code_are_the_users() -> None:
    error = raised_by(lambda: Schedule(matmul).get_block("nowhere"))
    assert isinstance(error, ScheduleError)
    with pytest.raises(MemberError, match="schedule rule Mine failed"):
        MemberFailures().take("schedule rule Mine", error)
