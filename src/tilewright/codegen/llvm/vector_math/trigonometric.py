"""sin, cos, tan: x = k pi/2 + r with |r| <= pi/4, then short polynomials in r.

The reduction subtracts k pi/2 in three pieces; where k grows too large for that in some lane, the
helper of `large_angles.py` redoes those lanes exactly. That branch is the only one here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen.llvm.vector_math import large_angles
from tilewright.codegen.llvm.vector_math.emitter import (
    Emitter,
    Int,
    Mask,
    Real,
    nearest_integer,
    polynomial,
    where,
)
from tilewright.codegen.llvm.vector_math.formats import F32, F64, FloatFormat

TWO_OVER_PI = 0.6366197723675814


@dataclass(frozen=True)
class TrigonometricTable:
    """Constants of sin and cos in one format; polynomials in z = r^2 on |r| <= 0.79."""

    # (sin(r)/r - 1) / z, error relative to sin(r).
    sin: tuple[float, ...]
    # (cos(r) - 1 + z/2) / z^2, error absolute.
    cos: tuple[float, ...]
    # pi/2 as an unevaluated sum, each part rounded to the format.
    half_pi: tuple[float, float, float]
    # Up to here three pieces of pi/2 are enough.
    largest: float


TABLES: Mapping[FloatFormat, TrigonometricTable] = {
    F32: TrigonometricTable(
        # degree 2, error 2^-28.0
        sin=(-1.6666655e-01, 8.332154e-03, -1.9513811e-04),
        # degree 2, error 2^-33.2
        cos=(4.1666646e-02, -1.3887342e-03, 2.4435232e-05),
        half_pi=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        largest=2.0**17,
    ),
    F64: TrigonometricTable(
        # degree 5, error 2^-57.9
        sin=(
            -0.1666666666666663,
            0.008333333333321927,
            -0.00019841269829372007,
            2.755731352813325e-06,
            -2.505073084106239e-08,
            1.5895133908660455e-10,
        ),
        # degree 5, error 2^-63.9
        cos=(
            0.04166666666666661,
            -0.0013888888888875252,
            2.4801587289990797e-05,
            -2.7557314456277557e-07,
            2.0875732775010913e-09,
            -1.1359943536401908e-11,
        ),
        half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        largest=2.0**30,
    ),
}


def _reduced(x: Real) -> tuple[Real, Int]:
    """(r, k mod 4) with x = k pi/2 + r, for every finite x."""
    emitter, body = x.emitter, x.emitter.body
    # While |x| is not large. Fused, x - k head is exact; the next two steps round once.
    head, middle, tail = TABLES[emitter.fmt].half_pi
    n, k = nearest_integer(x, TWO_OVER_PI)
    r = n.times_plus(-tail, n.times_plus(-middle, n.times_plus(-head, x)))
    large = emitter.any_lane(abs(x) > TABLES[emitter.fmt].largest)
    before, slow, done = body.fresh("near"), body.fresh("far"), body.fresh("reduced")
    body.statement(f"br label %{before}")
    body.label(before)
    body.statement(f"br i1 {large}, label %{slow}, label %{done}")
    body.label(slow)
    far_r, far_k = _call_large(emitter, x, r, k)
    body.statement(f"br label %{done}")
    body.label(done)
    chosen_r = _join(emitter.real_type, emitter, (r.text, before), (far_r, slow))
    chosen_k = _join(emitter.int_type, emitter, (k.text, before), (far_k, slow))
    return Real(emitter, chosen_r), Int(emitter, chosen_k)


def _call_large(emitter: Emitter, x: Real, r: Real, k: Int) -> tuple[str, str]:
    """The results of the exact reduction in the large lanes, `r` and `k` in the others."""
    body, pair = emitter.body, large_angles.reduction_result(emitter)
    for helper in large_angles.helpers(emitter, TABLES[emitter.fmt].largest):
        body.helpers[helper.name] = helper
    arguments = (
        f"{emitter.real_type} {x.text}, {emitter.real_type} {r.text}, {emitter.int_type} {k.text}"
    )
    call = body.assign(f"call {pair} @{large_angles.reduction_name(emitter)}({arguments})")
    return (
        body.assign(f"extractvalue {pair} {call}, 0"),
        body.assign(f"extractvalue {pair} {call}, 1"),
    )


def _join(kind: str, emitter: Emitter, near: tuple[str, str], far: tuple[str, str]) -> str:
    incoming = ", ".join(f"[ {value}, %{block} ]" for value, block in (near, far))
    return emitter.body.assign(f"phi {kind} {incoming}")


def _sin_and_cos(r: Real) -> tuple[Real, Real]:
    """sin(r) and cos(r) for |r| <= pi/4."""
    table = TABLES[r.emitter.fmt]
    z = r * r
    sine = (r * z).times_plus(polynomial(z, table.sin), r)
    cosine = (z * z).times_plus(polynomial(z, table.cos), 1.0 - z * 0.5)
    return sine, cosine


def _odd(k: Int) -> Mask:
    return (k & 1).compare("ne", 0)


def _flipped_by(value: Real, bit_two: Int) -> Real:
    """The value with its sign flipped where bit 1 of the integer is set."""
    sign = (bit_two & 2) << (value.emitter.fmt.bits - 2)
    return (value.bits() ^ sign).as_real()


def sin(x: Real) -> Real:
    r, k = _reduced(x)
    sine, cosine = _sin_and_cos(r)
    # sin(-0) is -0, which the sums above lose.
    return where(x.equals(0.0), x, _flipped_by(where(_odd(k), cosine, sine), k))


def cos(x: Real) -> Real:
    r, k = _reduced(x)
    sine, cosine = _sin_and_cos(r)
    return _flipped_by(where(_odd(k), sine, cosine), k + 1)


def tan(x: Real) -> Real:
    r, k = _reduced(x)
    sine, cosine = _sin_and_cos(r)
    odd = _odd(k)
    quotient = where(odd, -cosine, sine) / where(odd, sine, cosine)
    return where(x.equals(0.0), x, quotient)
