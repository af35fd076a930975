"""Exceptions in members that users wrote: rules, cost models, callbacks and the rest.

Such an exception is a bug that its author wants to see. It stops the run and shows the author's
line; whoever would rather go on is shown it once.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable
from types import FrameType

from tilewright.errors import MemberError
from tilewright.support.machine_faults import machine_fault

OURS = "tilewright"
_MOST_FRAMES = 3
_LIBRARIES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
STOPPED = "keep_going=True (--keep-going) tunes without it"
SKIPPED = "it is skipped, and later failures like it without a message"


def to_stderr(text: str) -> None:
    """Show a failure where there is nothing better."""
    print(text, file=sys.stderr)


class MemberFailures:
    """What becomes of exceptions in members; `show` is called once for each member and cause."""

    def __init__(
        self, *, keep_going: bool = False, show: Callable[[str], object] = to_stderr
    ) -> None:
        self.keep_going = keep_going
        self.show = show
        self._shown: set[tuple[str, str]] = set()

    def __deepcopy__(self, memo: dict[int, object]) -> MemberFailures:
        """Members that are cloned go on to report to the same place."""
        return self

    def take(self, who: str, error: Exception, *members: object) -> bool:
        """Stop, or show it, if one of the members or the code that failed is the user's own.

        False: it is ours. Faults of the machine stop a run that is to keep going, too.
        """
        fault = machine_fault(error)
        if fault is not None:
            raise fault from error
        if isinstance(error, MemberError) and not self.keep_going:
            raise error
        kinds = [type(member) for member in members if member is not None]
        is_users = any(not _is_our_module(kind.__module__) for kind in kinds)
        if not (is_users or _users_frames(error)):
            return False
        story = f"{who} failed: {type(error).__name__}: {error}\n{_excerpt(error)}"
        if not self.keep_going:
            raise _member_error(type(error))(f"{story}\n{STOPPED}") from error
        cause = (who, type(error).__name__)
        if cause not in self._shown:
            self._shown.add(cause)
            self.show(f"{story}\n{SKIPPED}")
        return True


def _member_error(kind: type[Exception]) -> type[MemberError]:
    """A `MemberError` that whoever waits for an exception of that kind catches, too."""
    built_in = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    if issubclass(MemberError, built_in):
        return MemberError
    # Some built-in exceptions want other arguments, or show them in another way.
    usual = {name: getattr(Exception, name) for name in ("__init__", "__str__")}
    plain = {"__module__": MemberError.__module__, "__reduce__": _as_member_error}
    return type(MemberError.__name__, (MemberError, built_in), {**usual, **plain})


def _as_member_error(error: MemberError) -> tuple[type[MemberError], tuple[object, ...]]:
    """What is pickled of such an exception: a class made here cannot be found by its name."""
    return MemberError, error.args


def _is_our_module(name: str) -> bool:
    return name.partition(".")[0] == OURS


def _users_frames(error: Exception) -> list[traceback.FrameSummary]:
    """The calls on the way to an error that are in code of the user's own, the last ones."""
    calls = list(traceback.walk_tb(error.__traceback__))
    summary = traceback.StackSummary.extract(iter(calls))
    pairs = zip(calls, summary, strict=True)
    return [shown for (frame, _), shown in pairs if _is_users_code(frame)][-_MOST_FRAMES:]


def _is_users_code(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    is_known = _is_our_module(name) or name.partition(".")[0] in sys.stdlib_module_names
    return not is_known and not frame.f_code.co_filename.startswith(_LIBRARIES)


def _excerpt(error: Exception) -> str:
    """The user's lines; those of a library where an error was raised if there are none."""
    frames = _users_frames(error) or traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
    return "".join(traceback.format_list(frames)).rstrip()
