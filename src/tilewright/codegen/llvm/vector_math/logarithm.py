"""log, log2, log10, log1p and the inverse hyperbolic functions that are logarithms.

x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), log(x) = e ln2 + log(1 + f).
"""

from __future__ import annotations

import math

from tilewright.codegen.llvm.vector_math import exponential
from tilewright.codegen.llvm.vector_math.emitter import (
    Int,
    Real,
    integer_as_real,
    polynomial,
    power_of_two,
    where,
)
from tilewright.codegen.llvm.vector_math.exponential import table_for

# (log(1+f) - f + f^2/2) / f^3 for float32; degree 7, error 2^-27.3 relative to log(1+f).
LOG_F32 = (
    3.3333316e-01,
    -2.500081e-01,
    2.0002295e-01,
    -1.662454e-01,
    1.4180972e-01,
    -1.312875e-01,
    1.2883282e-01,
    -7.8615606e-02,
)

# 2 (atanh(s)/s - 1) / z with z = s^2 and s = f/(2+f) for float64; degree 6, error 2^-59.5 relative
# to log(1+f). A polynomial in f would need more than twice the degree.
LOG_F64 = (
    0.6666666666666734,
    0.3999999999941806,
    0.28571428741829374,
    0.22222198615414834,
    0.1818356276557237,
    0.15314076786351366,
    0.14795805835239917,
)

LOG2_E, LOG2_E_REST = 1.4426950408889634, 2.0355273740931033e-17
LOG10_E, LOG10_E_REST = 0.4342944819032518, 1.098319650216765e-17


def split_exponent(x: Real) -> tuple[Int, Real]:
    """(e, m) with x = 2^e m and m in [sqrt(1/2), sqrt(2)), for a positive finite x."""
    fmt = x.emitter.fmt
    denormal = x < fmt.min_normal
    lift = fmt.mantissa_bits + 1
    normal = where(denormal, x * 2.0**lift, x)
    base = fmt.bit_pattern(math.sqrt(0.5))
    offset = normal.bits() - base
    mantissa = ((offset & ((1 << fmt.mantissa_bits) - 1)) + base).as_real()
    exponent = offset >> fmt.mantissa_bits
    zero = x.emitter.int(0)
    return exponent - where(denormal, x.emitter.int(lift), zero), mantissa


def _log1p_tail(f: Real) -> Real:
    """log(1 + f) - f, small against f."""
    if f.emitter.fmt.bits == 32:
        return f * f * f.times_plus(polynomial(f, LOG_F32), -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return s.times_plus(half_square + z * polynomial(z, LOG_F64), -half_square)


def _combined(exponent: Int, f: Real) -> Real:
    """exponent * ln2 + log(1 + f)."""
    head, tail = f.emitter.fmt.split(exponential.LN2, exponential.LN2_REST, table_for(f).head_bits)
    e = integer_as_real(exponent)
    return e.times_plus(head, f + e.times_plus(tail, _log1p_tail(f)))


def _with_special_cases(argument: Real, result: Real) -> Real:
    """-inf at 0, NaN below, inf and NaN passed on."""
    pole = where(argument.equals(0.0), -math.inf, argument)
    special = where(argument < 0.0, math.nan, pole)
    return where((argument > 0.0) & (argument < math.inf), result, special)


def _reduced_log(x: Real) -> tuple[Real, Real]:
    """(e, log(1 + f)) of x = 2^e (1 + f)."""
    exponent, mantissa = split_exponent(x)
    f = mantissa - 1.0
    return integer_as_real(exponent), f + _log1p_tail(f)


def log(x: Real) -> Real:
    exponent, mantissa = split_exponent(x)
    return _with_special_cases(x, _combined(exponent, mantissa - 1.0))


def log2(x: Real) -> Real:
    e, reduced = _reduced_log(x)
    head = x.emitter.fmt.round(LOG2_E)
    tail = (LOG2_E - head) + LOG2_E_REST
    return _with_special_cases(x, e + reduced.times_plus(head, reduced * tail))


def log10(x: Real) -> Real:
    fmt = x.emitter.fmt
    e, reduced = _reduced_log(x)
    head = fmt.round(LOG10_E)
    tail = (LOG10_E - head) + LOG10_E_REST
    two_head, two_tail = fmt.split(
        exponential.LOG10_2, exponential.LOG10_2_REST, table_for(x).head_bits
    )
    small = reduced.times_plus(head, e.times_plus(two_tail, reduced * tail))
    return _with_special_cases(x, e.times_plus(two_head, small))


def _log_of_sum(total: Real, lost: Real, extra_exponent: Int) -> Real:
    """log((total + lost) 2^extra) where `lost` is what rounding took away from `total`."""
    exponent, mantissa = split_exponent(total)
    # Far from 1 the lost part does not matter; the bound keeps 2^-e a normal number.
    bounded = where(exponent.compare("slt", 100), exponent, total.emitter.int(100))
    f = (mantissa - 1.0) + lost * power_of_two(0 - bounded)
    return _combined(exponent + extra_exponent, f)


def log1p(x: Real) -> Real:
    total = 1.0 + x
    seen = total - 1.0
    lost = (1.0 - (total - seen)) + (x - seen)
    result = _log_of_sum(total, lost, x.emitter.int(0))
    return _with_special_cases(total, result).with_sign_of(x)


def _log1p_or_log_twice(x: Real, grown: Real) -> Real:
    """log1p(grown), or log(2 x) where x is so large that `grown` may have overflowed."""
    large = x > 2.0 ** (x.emitter.fmt.mantissa_bits + 4)
    total = where(large, x, 1.0 + grown)
    seen = total - 1.0
    lost = where(large, 0.0, (1.0 - (total - seen)) + (grown - seen))
    extra = where(large, x.emitter.int(1), x.emitter.int(0))
    return _with_special_cases(total, _log_of_sum(total, lost, extra))


def asinh(x: Real) -> Real:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))) with a = |x|."""
    a = abs(x)
    square = a * a
    grown = a + square / ((square + 1.0).sqrt() + 1.0)
    return _log1p_or_log_twice(a, grown).with_sign_of(x)


def acosh(x: Real) -> Real:
    """log1p(t + sqrt(2 t + t^2)) with t = x - 1."""
    t = x - 1.0
    result = _log1p_or_log_twice(x, t + t.times_plus(t, t + t).sqrt())
    return where(x < 1.0, math.nan, result)


def atanh(x: Real) -> Real:
    """log1p(2 a / (1 - a)) / 2 with a = |x|."""
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).with_sign_of(x)
