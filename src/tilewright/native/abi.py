"""Names that generated code and the runtime agree on."""

from __future__ import annotations

_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 "
    "expm1 fabs fdim floor fma fmax fmaximum fmin fminimum fmod frexp hypot ilogb ldexp lgamma "
    "llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter pow "
    "remainder remquo rint round roundeven scalbn sin sincos sinh sqrt tan tanh tgamma trunc"
)
# Of C's mathematical library: for double, for float and for long double.
MATH_FUNCTIONS = frozenset(name + kind for name in _MATH.split() for kind in ("", "f", "l"))
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
