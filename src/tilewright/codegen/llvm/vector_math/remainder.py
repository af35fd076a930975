"""fmod and hypot."""

from __future__ import annotations

import math

from tilewright.codegen.llvm.vector_math.emitter import Int, Real, power_of_two, scaled, where
from tilewright.codegen.llvm.vector_math.formats import F32, F64


def _normalised(x: Real) -> tuple[Real, Int]:
    """(m, e) with x = m 2^e for a non-negative x, e non-zero only to lift a denormal."""
    lift = x.emitter.fmt.mantissa_bits + 1
    denormal = x < x.emitter.fmt.min_normal
    exponent = where(denormal, x.emitter.int(-lift), x.emitter.int(0))
    return where(denormal, x * 2.0**lift, x), exponent


def _exponent_field(x: Real) -> Int:
    return x.bits() >> x.emitter.fmt.mantissa_bits


def fmod(x: Real, y: Real) -> Real:
    """Exact: subtracts the largest 2^d |y| that fits until less than |y| is left.

    Each round clears at least the leading bit, so the loop ends after as many rounds as the
    exponents are apart; operands of similar size take very few.
    """
    emitter, body = x.emitter, x.emitter.body
    start, divisor = abs(x), abs(y)
    lifted, _ = _normalised(divisor)
    valid = (start < math.inf) & (divisor > 0.0)
    entry, head, work, done = (body.fresh(name) for name in ("enter", "head", "work", "done"))
    body.statement(f"br label %{entry}")
    body.label(entry)
    body.statement(f"br label %{head}")
    body.label(head)
    # The phi names a value that is emitted later, so its line is filled in at the end.
    phi_line, left = len(body.lines), Real(emitter, body.fresh("%left"))
    fits = (left >= divisor) & valid
    again = emitter.any_lane(fits)
    body.statement(f"br i1 {again}, label %{work}, label %{done}")
    body.label(work)
    left_lifted, left_lift = _normalised(left)
    distance = (_exponent_field(left_lifted) + left_lift) - _exponent_field(lifted)
    multiple = scaled(lifted, where(fits, distance, emitter.int(0)))
    fitting = where(multiple > left, multiple * 0.5, multiple)
    remaining = where(fits, left - fitting, left)
    body.statement(f"br label %{head}")
    incoming = f"[ {start.text}, %{entry} ], [ {remaining.text}, %{work} ]"
    body.lines.insert(phi_line, f"  {left.text} = phi {emitter.real_type} {incoming}")
    body.label(done)
    undefined = ~valid | y.is_nan()
    return where(undefined, math.nan, left.with_sign_of(x))


def hypot(x: Real, y: Real) -> Real:
    """sqrt(x^2 + y^2) without overflow: in float64 for float32, else scaled by a power of two."""
    if x.emitter.fmt is F32:
        wide_x, wide_y = x.converted(F64), y.converted(F64)
        root = wide_x.times_plus(wide_x, wide_y * wide_y).sqrt().converted(F32)
    else:
        root = _scaled_hypot(x, y)
    infinite = abs(x).equals(math.inf) | abs(y).equals(math.inf)
    return where(infinite, math.inf, root)


def _scaled_hypot(x: Real, y: Real) -> Real:
    a, b = abs(x), abs(y)
    largest = where(a > b, a, b)
    zero = x.emitter.int(0)
    up, down = x.emitter.int(600), x.emitter.int(-600)
    shift = where(largest > 2.0**500, down, where(largest < 2.0**-400, up, zero))
    scale, back = power_of_two(shift), power_of_two(zero - shift)
    a, b = a * scale, b * scale
    return a.times_plus(a, b * b).sqrt() * back
