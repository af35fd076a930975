"""Reading back what lies in files: whatever is wrong with it becomes one error about one place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.errors import TilewrightError

# What taking hostile data apart can raise: bad text, bad nesting, bad types, bad numbers.
_FORMAT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


@contextmanager
def decoding(place: str, error: type[TilewrightError]) -> Iterator[None]:
    """Raise `error`, which names `place`, for whatever makes stored data unreadable inside.

    What is raised as `error` inside already says where it is.
    """
    try:
        yield
    except error:
        raise
    except RecursionError as cause:
        raise error(f"{place}: nested too deeply") from cause
    except (TilewrightError, *_FORMAT_ERRORS) as cause:
        raise error(f"{place}: {_reason(cause)}") from cause


def _reason(cause: BaseException) -> str:
    """What a wrong value is told with is a sentence; other errors only say something by name."""
    is_sentence = isinstance(cause, TilewrightError | ValueError | struct.error)
    return str(cause) if is_sentence else repr(cause)
