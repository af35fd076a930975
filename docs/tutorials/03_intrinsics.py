"""Tutorial 3: an operator of your own, implemented differently for each target.

Run it: python docs/tutorials/03_intrinsics.py
"""

import numpy as np

import tilewright as tw
from tilewright import te, tir
from tilewright.ir import register_op
from tilewright.target import register_intrin_rule

N = 1000

# 1. The direct way: call a C function, or an LLVM intrinsic, by name.
X = te.placeholder((N,), name="X")
by_name = te.compute((N,), lambda i: tir.call_pure_extern("float32", "cbrtf", X[i]), name="Y")
by_llvm = te.compute(
    (N,),
    lambda i: tir.call_llvm_pure_intrin("float32", "llvm.canonicalize.f32", X[i]),
    name="Z",
)
x, y = np.linspace(0.1, 8, N).astype("float32"), np.empty(N, "float32")
tw.build(te.create_prim_func([X, by_name]))(x, y)
np.testing.assert_allclose(y, np.cbrt(x), rtol=1e-6)
tw.build(te.create_prim_func([X, by_llvm]))(x, y)
np.testing.assert_array_equal(y, x)

# 2. An operator of your own. Programs only say `tir.softsign`; a rule says what it means on a
# target. The rule gets the call and returns an expression, here plain arithmetic.
register_op("tir.softsign", num_inputs=1)


@register_intrin_rule("default", "softsign")
def softsign_anywhere(call):
    (value,) = call.args
    return value / (tir.abs(value) + 1.0)


def softsign(value):
    return tir.call_intrin(value.dtype, "tir.softsign", value)


func = te.create_prim_func([X, te.compute((N,), lambda i: softsign(X[i]), name="Y")])
func.show()  # prints T.softsign, and parses back
mod = tw.build(func)
mod(x, y)
np.testing.assert_allclose(y, x / (1 + abs(x)), rtol=1e-6)


# 3. Another rule for one target; `override=True` replaces an existing one.
def exp_by_libm(call):
    return tir.call_pure_extern("float32", "expf", call.args[0])


register_intrin_rule("llvm", "exp", exp_by_libm, override=True)
exponential = te.create_prim_func([X, te.compute((N,), lambda i: te.exp(X[i]), name="Y")])
mod = tw.build(exponential)
mod(x, y)
np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
assert "@expf" in mod.get_source("ll")
tw.target.remove_intrin_rule("llvm", "exp")
assert "@expf" not in tw.build(exponential).get_source("ll")
print("the built-in exp is back")
