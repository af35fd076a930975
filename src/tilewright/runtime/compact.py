"""Row-major copies of arrays whose elements lie in another order, such as transposed weights.

A row of the copy takes its elements from far apart, one of each cache line; so the copy is made in
blocks whose lines are still there for the next row, on all cores.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tilewright.runtime.cpu_device import aligned_memory
from tilewright.runtime.tensor_view import Array
from tilewright.runtime.threads import available_cores

ROWS, COLUMNS = 64, 512  # of a block
LARGE = 1 << 22  # bytes that are worth starting threads for


def compact_copy(array: Array) -> Array:
    """A row-major copy in aligned memory."""
    copy = aligned_memory(array.shape, array.dtype)
    if array.ndim < 2 or array.nbytes < LARGE or array.flags.c_contiguous:
        copy[...] = array
        return copy

    def copy_rows(first: int) -> None:
        for left in range(0, array.shape[-1], COLUMNS):
            block = (slice(first, first + ROWS), ..., slice(left, left + COLUMNS))
            copy[block] = array[block]

    with ThreadPoolExecutor(available_cores()) as threads:
        list(threads.map(copy_rows, range(0, len(array), ROWS)))
    return copy
