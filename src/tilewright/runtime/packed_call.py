"""Calls from a kernel into Python: `T.call_packed("name", ...)`.

Compiled code calls `i32 tw_call_packed(ptr name, ptr slots, ptr kinds, i32 count)`. Each argument
is one 8-byte slot, and `kinds` has a letter for each:

    i  signed integer     u  unsigned integer     b  bool          f  double
    s  text (pointer to a zero-terminated string)
    p  any other pointer  t  array (pointer to a DLTensor, valid during the call)

The function's result, an integer or nothing, goes into the first slot. The status is 0, or a
negative number that stands for the exception that the function raised: it comes out of the kernel
as its status, whatever thread the call was made on, and the caller of the kernel raises it.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tilewright.errors import ArgumentError, RuntimeFailure
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.native.abi import NO_HANDLER
from tilewright.runtime.dlpack import SUBBYTE_PADDED, DLTensor, view_of_tensor
from tilewright.runtime.ndarray import shared_in_numpy
from tilewright.runtime.registry import get_global_func
from tilewright.runtime.tensor_view import Array

_FIRST_TICKET = -2
# Several threads of one kernel may fail; the kernel reports one, the others are forgotten in time.
_KEPT_FAILURES = 256

_HANDLER_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
)


class _Failures:
    """Exceptions on their way from a callback to the caller of the kernel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: OrderedDict[int, tuple[str, BaseException]] = OrderedDict()
        self._next = _FIRST_TICKET

    def add(self, name: str, error: BaseException) -> int:
        """Keep an exception; the number stands for it."""
        with self._lock:
            ticket = self._next
            self._next = ticket - 1 if ticket > -(1 << 30) else _FIRST_TICKET
            self._pending[ticket] = (name, error)
            while len(self._pending) > _KEPT_FAILURES:
                self._pending.popitem(last=False)
            return ticket

    def take(self, ticket: int) -> tuple[str, BaseException] | None:
        """The exception behind a number."""
        with self._lock:
            return self._pending.pop(ticket, None)


_failures = _Failures()


def handler_address() -> int:
    """The address of the C function that calls into Python."""
    return ctypes.cast(_handler, ctypes.c_void_p).value or 0


def failure_of(function: str, status: int) -> BaseException | None:
    """The exception that a packed function raised inside a kernel, ready to be raised again."""
    if status == NO_HANDLER:
        return RuntimeFailure(f"{function}(): calls a packed function, but no handler is installed")
    found = _failures.take(status)
    if found is None:
        return None
    name, error = found
    if not isinstance(error, Exception):
        return error  # KeyboardInterrupt and SystemExit stay what they are
    failure = RuntimeFailure(
        f"{function}(): the packed function {name!r} raised {type(error).__name__}: {error}"
    )
    failure.__cause__ = error
    return failure


def _call(name: bytes, slots: int, kinds: bytes, count: int) -> int:
    text = name.decode(errors="replace")
    try:
        args = [
            _READERS[chr(kind)](slots + 8 * position) for position, kind in enumerate(kinds[:count])
        ]
        result = get_global_func(text)(*args)
        struct.pack_into("<q", (ctypes.c_char * 8).from_address(slots), 0, _as_integer(result))
    except BaseException as error:  # nothing may fly through native code
        return _failures.add(text, error)
    return 0


_handler = _HANDLER_TYPE(_call)


def _as_integer(result: Any) -> int:
    if result is None:
        return 0
    try:
        return operator.index(result)
    except TypeError as error:
        raise ArgumentError(
            "a function called from a kernel returns an integer or None, not "
            f"{type(result).__name__}"
        ) from error


def _text_at(address: int) -> str:
    pointer = ctypes.c_void_p.from_address(address).value
    return ctypes.string_at(pointer).decode(errors="replace") if pointer else ""


def _tensor_at(address: int) -> Array:
    """A NumPy array over the kernel's memory."""
    tensor = DLTensor.from_address(ctypes.c_void_p.from_address(address).value or 0)
    view = view_of_tensor(tensor, SUBBYTE_PADDED, None)
    return shared_in_numpy(view, to_numpy(view.dtype))


_READERS: dict[str, Callable[[int], object]] = {
    "i": lambda address: ctypes.c_int64.from_address(address).value,
    "u": lambda address: ctypes.c_uint64.from_address(address).value,
    "b": lambda address: ctypes.c_int64.from_address(address).value != 0,
    "f": lambda address: ctypes.c_double.from_address(address).value,
    "p": lambda address: ctypes.c_void_p.from_address(address).value or 0,
    "s": _text_at,
    "t": _tensor_at,
}
