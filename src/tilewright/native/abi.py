"""Names that generated code and the runtime agree on."""

from __future__ import annotations

# Beside each function stands one that takes its arguments from an array of 8-byte slots.
PACKED_SUFFIX = ".packed"
# Everything that compiled code takes from the native runtime begins so.
RUNTIME_PREFIX = "tw_"
# Calls from a kernel into Python; the status of a kernel that does so where there is no Python.
CALL_PACKED = "tw_call_packed"
NO_HANDLER = -1
SET_NUM_THREADS = "tw_set_num_threads"
# Runs a range of iterations on the thread pool.
PARALLEL_LAUNCH = "tw_parallel_launch"
