"""atan, atan2, asin, acos.

atan folds its argument into |t| <= tan(pi/8): t = a, (a-1)/(a+1) or -1/a, plus 0, pi/4 or pi/2.
asin folds into [0, 1/2] through asin(a) = pi/2 - 2 asin(sqrt((1-a)/2)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.codegen.llvm.vector_math.emitter import Real, polynomial, where
from tilewright.codegen.llvm.vector_math.formats import F32, F64, FloatFormat

TAN_PI_8 = 0.41421356237309503
TAN_3PI_8 = 2.414213562373095
PI, PI_REST = 3.141592653589793, 1.2246467991473532e-16

# (atan(t)/t - 1) / z with z = t^2 on |t| <= tan(pi/8), error relative to atan(t).
ATAN: Mapping[FloatFormat, tuple[float, ...]] = {
    # degree 4, error 2^-30.4
    F32: (-3.3333316e-01, 1.999853e-01, -1.4244445e-01, 1.0599655e-01, -6.0913242e-02),
    # degree 10, error 2^-59.4
    F64: (
        -0.3333333333333323,
        0.19999999999961338,
        -0.1428571428084418,
        0.11111110811363857,
        -0.09090898466414518,
        0.07692071541205708,
        -0.06663221189538784,
        0.05848672302026617,
        -0.05042570477447077,
        0.03814184249268752,
        -0.01798644115635141,
    ),
}

# (asin(s)/s - 1) / z with z = s^2 on [0, 1/4], error relative to asin(s).
ASIN: Mapping[FloatFormat, tuple[float, ...]] = {
    # degree 5, error 2^-31.7
    F32: (1.666666e-01, 7.500495e-02, 4.451815e-02, 3.180036e-02, 1.4459523e-02, 3.7494246e-02),
    # degree 12, error 2^-59.7
    F64: (
        0.1666666666666674,
        0.07499999999975039,
        0.04464285717137423,
        0.030381942837639873,
        0.022372211842348236,
        0.017351661546508742,
        0.013980292331096328,
        0.011402800409113624,
        0.0107604690199019,
        0.0037747497606042033,
        0.02155444222763064,
        -0.02079879163260051,
        0.032512274115692914,
    ),
}


def _pi_times(fmt: FloatFormat, factor: float) -> tuple[float, float]:
    """A power-of-two multiple of pi as a number of the format and the rest."""
    head = fmt.round(PI * factor)
    return head, fmt.round((PI * factor - head) + PI_REST * factor)


def _atan_quotient(y: Real, x: Real) -> Real:
    """atan(y / x) for non-negative y and x whose sum does not overflow, not both zero."""
    fmt = y.emitter.fmt
    steep, middle = y > x * TAN_3PI_8, y > x * TAN_PI_8
    numerator = where(steep, -x, where(middle, y - x, y))
    denominator = where(steep, y, where(middle, y + x, x))
    t = numerator / denominator
    half_pi, half_pi_rest = _pi_times(fmt, 0.5)
    quarter_pi, quarter_pi_rest = _pi_times(fmt, 0.25)
    zero = y.emitter.real(0.0)
    base = where(steep, half_pi, where(middle, quarter_pi, zero))
    base_rest = where(steep, half_pi_rest, where(middle, quarter_pi_rest, zero))
    z = t * t
    correction = (t * z).times_plus(polynomial(z, ATAN[fmt]), base_rest)
    return base + (t + correction)


def atan(x: Real) -> Real:
    return _atan_quotient(abs(x), x.emitter.real(1.0)).with_sign_of(x)


def atan2(y: Real, x: Real) -> Real:
    y_size, x_size = abs(y), abs(x)
    largest = where(y_size > x_size, y_size, x_size)
    # Both infinite count as equal, both zero as 0/1, and huge values are scaled down so that their
    # sum stays finite.
    infinite = y_size.equals(math.inf) & x_size.equals(math.inf)
    y_size, x_size = where(infinite, 1.0, y_size), where(infinite, 1.0, x_size)
    x_size = where(largest.equals(0.0), 1.0, x_size)
    shrink = where(largest > 2.0**100, 2.0**-4, x.emitter.real(1.0))
    angle = _atan_quotient(y_size * shrink, x_size * shrink)
    pi, pi_rest = _pi_times(x.emitter.fmt, 1.0)
    behind = x.bits().compare("slt", 0)
    result = where(behind, pi - (angle - pi_rest), angle).with_sign_of(y)
    return where(x.is_nan() | y.is_nan(), x + y, result)


def _asin_folded(a: Real) -> tuple[Real, Real]:
    """(s, asin(s) - s) with s = a up to 1/2 and s = sqrt((1-a)/2) above."""
    fold = a > 0.5
    z = where(fold, (1.0 - a) * 0.5, a * a)
    s = where(fold, z.sqrt(), a)
    return s, s * z * polynomial(z, ASIN[a.emitter.fmt])


def asin(x: Real) -> Real:
    a = abs(x)
    s, tail = _asin_folded(a)
    half_pi, half_pi_rest = _pi_times(x.emitter.fmt, 0.5)
    # pi/2 - 2 (s + tail), larger terms first.
    folded = half_pi - ((s + s) + ((tail + tail) - half_pi_rest))
    return where(a > 0.5, folded, s + tail).with_sign_of(x)


def acos(x: Real) -> Real:
    s, tail = _asin_folded(abs(x))
    fmt = x.emitter.fmt
    half_pi, half_pi_rest = _pi_times(fmt, 0.5)
    pi, pi_rest = _pi_times(fmt, 1.0)
    signed_tail = tail.with_sign_of(x)
    near_zero = half_pi - (x + (signed_tail - half_pi_rest))
    doubled, doubled_tail = s + s, tail + tail
    near_minus_one = pi - (doubled + (doubled_tail - pi_rest))
    result = where(x < -0.5, near_minus_one, near_zero)
    return where(x > 0.5, doubled + doubled_tail, result)
