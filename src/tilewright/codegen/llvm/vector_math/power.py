"""pow: 2^(y log2|x|), with the logarithm carried well beyond the precision of the result."""

from __future__ import annotations

import math

from tilewright.codegen.llvm.vector_math.emitter import (
    Mask,
    Real,
    at_least,
    at_most,
    integer_as_real,
    nearest_integer,
    polynomial,
    power_of_two,
    scaled,
    where,
)
from tilewright.codegen.llvm.vector_math.exponential import exp2_reduced, table_for
from tilewright.codegen.llvm.vector_math.formats import F32, F64
from tilewright.codegen.llvm.vector_math.logarithm import split_exponent

# float32 computes in float64. log2((1+s)/(1-s)) / s in z = s^2: degree 5, error 2^-45.1; and
# (2^r - 1) / r on |r| <= 1/2: degree 6, error 2^-34.3 relative to 2^r.
LOG2_SHORT = (
    2.88539008177785,
    0.9617966941137819,
    0.5770779422260001,
    0.41220926745134995,
    0.3199050388747536,
    0.28291009406076245,
)
EXP2_SHORT = (
    0.6931471807036339,
    0.2402265106648564,
    0.0555041036798493,
    0.009618038120391472,
    0.0013333933684849363,
    0.0001546676506468218,
    1.5196461112985733e-05,
)

# ((atanh(s)/s - 1)/z - 1/3) / z in z = s^2: degree 7, error 2^-73.5 relative to atanh(s).
ATANH_LONG = (
    0.1999999999999999,
    0.14285714285722498,
    0.11111111108779097,
    0.09090909434131386,
    0.07692278489938514,
    0.06668157076431072,
    0.05837434965619763,
    0.059943428345075975,
)
THIRD, THIRD_REST = 0.3333333333333333, 1.850371707708594e-17
TWO_LOG2_E, TWO_LOG2_E_REST = 2.8853900817779268, 4.0710547481862066e-17

Pair = tuple[Real, Real]
"""An unevaluated sum of a value and its much smaller correction."""


def _quick_sum(large: Real, small: Real) -> Pair:
    """`large + small` exactly, for |large| >= |small|."""
    total = large + small
    return total, small - (total - large)


def _pair_product(a: Pair, b: Pair) -> Pair:
    product = a[0] * b[0]
    rest = a[0].times_plus(b[0], -product)
    return _quick_sum(product, rest + a[0].times_plus(b[1], a[1] * b[0]))


def _atanh_argument(m: Real) -> Pair:
    """(m - 1) / (m + 1) to twice the working precision."""
    f = m - 1.0
    d = m + 1.0
    d_rest = m - (d - 1.0)
    inverse = 1.0 / d
    s = f * inverse
    remainder = (-s).times_plus(d, f) - s * d_rest
    return _quick_sum(s, remainder * inverse)


def _log2_pair(x: Real) -> Pair:
    """log2(x) of a positive finite x with a relative error near 2^-65."""
    exponent, m = split_exponent(x)
    s = _atanh_argument(m)
    z = _pair_product(s, s)
    third = x.emitter.real(THIRD)
    inner, inner_rest = _quick_sum(third, z[0] * polynomial(z[0], ATANH_LONG))
    cubic = _pair_product(_pair_product(z, s), (inner, inner_rest + THIRD_REST))
    head, rest = _quick_sum(s[0], cubic[0])
    atanh = _quick_sum(head, rest + (s[1] + cubic[1]))
    factor = (x.emitter.real(TWO_LOG2_E), x.emitter.real(TWO_LOG2_E_REST))
    log = _pair_product(atanh, factor)
    # |log2 m| <= 1/2 <= |e| unless e = 0, and then the sum is exact anyway.
    total, lost = _quick_sum(integer_as_real(exponent), log[0])
    return _quick_sum(total, lost + log[1])


def _log2_end_points(magnitude: Real, log: Real) -> Real:
    """The logarithm corrected at 0 and infinity."""
    at_zero = where(magnitude.equals(0.0), -math.inf, log)
    return where(magnitude.equals(math.inf), math.inf, at_zero)


def _power_f64(magnitude: Real, y: Real) -> Real:
    log, log_rest = _log2_pair(magnitude)
    log = _log2_end_points(magnitude, log)
    low, high = table_for(y).exp2_range
    exponent = at_least(at_most(y * log, high), low)
    # Zero where y log was cut off or is infinite: the rest means nothing there.
    rest = y.times_plus(log, -exponent) + y * log_rest
    rest = where(abs(rest) < 1.0, rest, 0.0)
    n, scale = nearest_integer(exponent, 1.0)
    return scaled(exp2_reduced((exponent - n) + rest), scale)


def _power_f32(magnitude: Real, y: Real) -> Real:
    """Through float64, whose range makes scaling a single product and rounding the last step."""
    x = magnitude.converted(F64)
    exponent, m = split_exponent(x)
    s = (m - 1.0) / (m + 1.0)
    log = s.times_plus(polynomial(s * s, LOG2_SHORT), integer_as_real(exponent))
    product = y.converted(F64) * _log2_end_points(x, log)
    bounded = at_least(at_most(product, 200.0), -200.0)
    n, scale = nearest_integer(bounded, 1.0)
    r = bounded - n
    power = r.times_plus(polynomial(r, EXP2_SHORT), 1.0)
    return (power * power_of_two(scale)).converted(F32)


def _is_integer(magnitude: Real) -> Mask:
    """True where a non-negative number is an integer: adding 2^mantissa_bits rounds it."""
    limit = 2.0**magnitude.emitter.fmt.mantissa_bits
    return (magnitude >= limit) | ((magnitude + limit) - limit).equals(magnitude)


def power(x: Real, y: Real) -> Real:
    """x^y with every special case of C's pow."""
    magnitude, y_size = abs(x), abs(y)
    evaluate = _power_f32 if x.emitter.fmt is F32 else _power_f64
    result = evaluate(magnitude, y)
    integral = _is_integer(y_size)
    odd = integral & ~_is_integer(y_size * 0.5)
    negative = x.bits().compare("slt", 0)
    result = where(negative & odd, -result, result)
    undefined = (x < 0.0) & (x > -math.inf) & ~integral
    result = where(undefined, math.nan, result)
    result = where(x.is_nan() | y.is_nan(), x + y, result)
    one = (magnitude.equals(1.0) & y_size.equals(math.inf)) | y.equals(0.0) | x.equals(1.0)
    return where(one, 1.0, result)
