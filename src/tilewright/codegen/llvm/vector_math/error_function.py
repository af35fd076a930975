"""erf: a polynomial near zero, 1 - exp(-g(|x|)) beyond 1 with g = -log(erfc)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.codegen.llvm.vector_math.emitter import Real, at_most, polynomial, where
from tilewright.codegen.llvm.vector_math.exponential import rough_exp
from tilewright.codegen.llvm.vector_math.formats import F32, F64, FloatFormat


@dataclass(frozen=True)
class ErrorFunctionTable:
    """Constants of erf in one format."""

    # erf(x)/x - 1 in x^2 on |x| <= 1, error relative to erf.
    near: tuple[float, ...]
    # -log(erfc(x)) on [1, saturation], error of erf.
    far: tuple[float, ...]
    # Here erf has rounded to 1.
    saturation: float


TABLES: Mapping[FloatFormat, ErrorFunctionTable] = {
    F32: ErrorFunctionTable(
        # degree 6, error 2^-29.6
        near=(
            1.2837917e-01,
            -3.7612626e-01,
            1.12835854e-01,
            -2.6853815e-02,
            5.1883287e-03,
            -8.0101856e-04,
            7.853792e-05,
        ),
        # degree 7, error 2^-35.5
        far=(
            -1.8803158e-04,
            1.1295784e00,
            6.3321996e-01,
            1.084185e-01,
            -2.520821e-02,
            4.2045456e-03,
            -4.4133328e-04,
            2.16866e-05,
        ),
        saturation=4.0,
    ),
    F64: ErrorFunctionTable(
        # degree 12, error 2^-62.7
        near=(
            0.1283791670955126,
            -0.3761263890318375,
            0.11283791670954858,
            -0.026866170645072945,
            0.005223977624781222,
            -0.000854832697875727,
            0.00012055331037290494,
            -1.4925593513045717e-05,
            1.6460972870581499e-06,
            -1.635002536785311e-07,
            1.4657878292663982e-08,
            -1.1365651259578626e-09,
            5.945223704035703e-11,
        ),
        # degree 17, error 2^-57.1
        far=(
            5.133042792254669e-07,
            1.1283739910928232,
            0.6366440579211056,
            0.10270228186969142,
            -0.01898802667215276,
            -0.000413558350351309,
            0.0019189690212419394,
            -0.0007730625258147471,
            0.00013656684576095372,
            1.9517323977915038e-05,
            -2.2530641472304693e-05,
            8.578073268060921e-06,
            -2.1146257496712734e-06,
            3.695329740608041e-07,
            -4.592878471355335e-08,
            3.889597314169122e-09,
            -2.020102687113196e-10,
            4.8644598018039104e-12,
        ),
        saturation=6.0,
    ),
}


def erf(x: Real) -> Real:
    table = TABLES[x.emitter.fmt]
    a = at_most(abs(x), table.saturation)
    near = a.times_plus(polynomial(a * a, table.near), a)
    # At most 1/6 is taken away from 1, so that a rough exp is exact enough.
    scale, decay = rough_exp(-polynomial(a, table.far))
    far = scale.times_plus(-decay, 1.0)
    return where(a > 1.0, far, near).with_sign_of(x)
