"""Calls builders and runners of the user's own, which may raise: their candidates fail then.

That happens in a run that keeps going; otherwise an exception ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tilewright.support.member_failures import MemberFailures

ValueT = TypeVar("ValueT")


def guarded(
    call: Callable[[], ValueT],
    failed: Callable[[str], ValueT],
    what: str,
    member: object,
    failures: MemberFailures,
) -> ValueT:
    """The value of a call of a member, or what `failed` makes of the text of its exception."""
    try:
        return call()
    except Exception as error:
        name = f"{what} {type(member).__name__}"
        if not failures.take(name, error, member):
            raise
        return failed(f"{name} failed: {type(error).__name__}: {error}")
