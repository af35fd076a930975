"""exp, exp2, exp10, expm1 and what is built from them: sigmoid, tanh, sinh, cosh.

x = n ln2 + r with |r| <= ln2/2, exp(x) = 2^n exp(r). All coefficient tables here and in the sibling
files are weighted minimax fits (Remez exchange in 50-digit arithmetic on the named interval),
rounded to the format; the comments give the degree and the error before that rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen.llvm.vector_math.emitter import (
    Int,
    Real,
    at_least,
    at_most,
    nearest_integer,
    polynomial,
    power_of_two,
    scaled,
    where,
)
from tilewright.codegen.llvm.vector_math.formats import F32, F64, FloatFormat

LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E = 1.4426950408889634
LOG2_10 = 3.321928094887362
LOG10_2, LOG10_2_REST = 0.3010299956639812, -2.8037281277851704e-18
LN_10 = 2.302585092994046


@dataclass(frozen=True)
class ExponentialTable:
    """Constants of the exponential family in one format."""

    # (exp(r) - 1 - r) / r^2 on |r| <= ln2/2, error relative to expm1.
    exp: tuple[float, ...]
    # (2^r - 1) / r on |r| <= 1/2, error relative to 2^r.
    exp2: tuple[float, ...]
    # Bits of the head of ln2 and log10(2): n times the head is exact for every exponent n.
    head_bits: int
    # Beyond these inputs exp is surely 0 or infinity.
    exp_range: tuple[float, float]
    exp2_range: tuple[float, float]
    exp10_range: tuple[float, float]
    # Below the first expm1 rounds to -1; above the second tanh rounds to 1.
    expm1_lowest: float
    tanh_highest: float
    # Above this sinh and cosh are infinite; at it 2^(n-2) is still finite.
    sinh_highest: float


TABLES: Mapping[FloatFormat, ExponentialTable] = {
    F32: ExponentialTable(
        # degree 4, error 2^-26.2
        exp=(0.5, 1.6666543e-01, 4.1666284e-02, 8.366594e-03, 1.3946325e-03),
        # degree 5, error 2^-28.9
        exp2=(
            6.931472e-01,
            2.4022648e-01,
            5.5503324e-02,
            9.618439e-03,
            1.3398873e-03,
            1.5353123e-04,
        ),
        head_bits=15,
        exp_range=(-104.5, 89.0),
        exp2_range=(-151.0, 128.5),
        exp10_range=(-45.5, 38.6),
        expm1_lowest=-20.0,
        tanh_highest=10.0,
        sinh_highest=89.5,
    ),
    F64: ExponentialTable(
        # degree 10, error 2^-61.7
        exp=(
            0.5,
            0.16666666666666677,
            0.0416666666666667,
            0.00833333333332161,
            0.0013888888888866865,
            0.00019841269886192663,
            2.4801587360543404e-05,
            2.7557244129867135e-06,
            2.7557242742253835e-07,
            2.5109068390663416e-08,
            2.092445561817681e-09,
        ),
        # degree 11, error 2^-64.4
        exp2=(
            0.6931471805599453,
            0.24022650695910072,
            0.05550410866482169,
            0.00961812910762833,
            0.001333355814639271,
            0.00015403530393640131,
            1.5252733854315094e-05,
            1.3215486595336432e-06,
            1.0178051938424859e-07,
            7.0549743261021146e-09,
            4.4565716463524734e-10,
            2.562563612475961e-11,
        ),
        head_bits=40,
        exp_range=(-746.0, 710.0),
        exp2_range=(-1076.0, 1024.5),
        exp10_range=(-324.0, 308.4),
        expm1_lowest=-40.0,
        tanh_highest=22.0,
        sinh_highest=710.6,
    ),
}


def table_for(x: Real) -> ExponentialTable:
    return TABLES[x.emitter.fmt]


def _within(x: Real, bounds: tuple[float, float]) -> Real:
    low, high = bounds
    return at_least(at_most(x, high), low)


def _exp_reduced(r: Real) -> Real:
    """exp(r) for |r| <= ln2/2; shorter and more accurate than expm1 plus 1."""
    return polynomial(r, (1.0, 1.0, *table_for(r).exp))


def _split(x: Real) -> tuple[Int, Real]:
    """(n, r) with x = n ln2 + r, for an x whose exp neither overflows nor vanishes."""
    head, tail = x.emitter.fmt.split(LN2, LN2_REST, table_for(x).head_bits)
    n, exponent = nearest_integer(x, LOG2_E)
    return exponent, n.times_plus(-tail, n.times_plus(-head, x))


def _reduced(x: Real) -> tuple[Int, Real]:
    """(n, exp(r) - 1) with x = n ln2 + r."""
    exponent, r = _split(x)
    return exponent, (r * r).times_plus(polynomial(r, table_for(r).exp), r)


def exp(x: Real) -> Real:
    exponent, r = _split(_within(x, table_for(x).exp_range))
    return scaled(_exp_reduced(r), exponent)


def rough_exp(x: Real) -> tuple[Real, Real]:
    """Two factors of exp(x), with some digits less, where it neither over- nor underflows."""
    n, exponent = nearest_integer(x, LOG2_E)
    return power_of_two(exponent), _exp_reduced(n.times_plus(-LN2, x))


def exp2(x: Real) -> Real:
    bounded = _within(x, table_for(x).exp2_range)
    n, exponent = nearest_integer(bounded, 1.0)
    return scaled(exp2_reduced(bounded - n), exponent)


def exp2_reduced(r: Real) -> Real:
    """2^r for |r| <= 1/2."""
    return r.times_plus(polynomial(r, table_for(r).exp2), 1.0)


def exp10(x: Real) -> Real:
    bounded = _within(x, table_for(x).exp10_range)
    head, tail = x.emitter.fmt.split(LOG10_2, LOG10_2_REST, table_for(x).head_bits)
    n, exponent = nearest_integer(bounded, LOG2_10)
    r = n.times_plus(-tail, n.times_plus(-head, bounded))
    return scaled(_exp_reduced(r * LN_10), exponent)


def expm1(x: Real) -> Real:
    """2 (2^(n-1) (exp(r) - 1) + (2^(n-1) - 1/2)); halved inside so that 2^n cannot overflow."""
    table = table_for(x)
    exponent, reduced = _reduced(_within(x, (table.expm1_lowest, table.exp_range[1])))
    scale = power_of_two(exponent - 1)
    return (scale.times_plus(reduced, scale - 0.5) * 2.0).with_sign_of(x)


def sigmoid(x: Real) -> Real:
    """exp of a non-positive number only: no overflow, and full accuracy in the negative tail."""
    decay = exp(-abs(x))
    return where(x < 0.0, decay, 1.0) / (1.0 + decay)


def tanh(x: Real) -> Real:
    """t / (t + 2) with t = expm1(2 |x|)."""
    magnitude = at_most(abs(x), table_for(x).tanh_highest)
    exponent, reduced = _reduced(magnitude + magnitude)
    scale = power_of_two(exponent)
    grown = scale.times_plus(reduced, scale - 1.0)
    return (grown / (grown + 2.0)).with_sign_of(x)


def sinh(x: Real) -> Real:
    """With E = expm1(|x|): (E + E / (E + 1)) / 2, computed on E / 4 so that it cannot overflow."""
    exponent, reduced = _reduced(at_most(abs(x), table_for(x).sinh_highest))
    scale = power_of_two(exponent - 2)
    quarter = scale.times_plus(reduced, scale - 0.25)
    exponential = scale.times_plus(reduced, scale) * 4.0
    return ((quarter + quarter / exponential) * 2.0).with_sign_of(x)


def cosh(x: Real) -> Real:
    """With q = exp(|x|) / 4: 2 (q + 1 / (16 q))."""
    exponent, reduced = _reduced(at_most(abs(x), table_for(x).sinh_highest))
    scale = power_of_two(exponent - 2)
    quarter = scale.times_plus(reduced, scale)
    return (quarter + 0.0625 / quarter) * 2.0
