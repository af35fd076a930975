"""Tutorial 1: write a function, look at it, build it, run it, take it apart.

Run it: python docs/tutorials/01_first_kernel.py
"""

import numpy as np

import tilewright as tw
from tilewright import te
from tilewright.script import tir as T


# A TensorIR function is written in Python syntax. A block is one step of the computation: its
# iterators say which element it makes, `init` is what happens before the first step of a sum.
@T.prim_func
def row_sums(A: T.Buffer((64, 1000), "float32"), S: T.Buffer((64,), "float32")):
    for i, k in T.grid(64, 1000):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]


row_sums.show()

# Building takes a function or a module of several; arrays are NumPy's, results go into them.
mod = tw.build(row_sums)
a = np.random.rand(64, 1000).astype("float32")
s = np.empty(64, "float32")
mod(a, s)
np.testing.assert_allclose(s, a.sum(axis=1), rtol=1e-4)
print("the sums agree with NumPy;", mod["row_sums"].time_evaluator(number=100)(a, s))

# Python values can be used inside a function, so one definition can make many functions.


def make_scale(n: int, factor: float):
    @T.prim_func
    def scale(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.vectorized(n):
            Y[i] = X[i] * T.float32(factor)

    return scale


x, y = np.arange(8, dtype="float32"), np.empty(8, "float32")
tw.build(make_scale(8, 0.5))(x, y)
assert y.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]

# The same sum as a tensor expression: say what an element is, and get the function.
A = te.placeholder((64, 1000), name="A")
k = te.reduce_axis((0, 1000), name="k")
S = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="S")
func = te.create_prim_func([A, S])
tw.build(func)(a, s)
np.testing.assert_allclose(s, a.sum(axis=1), rtol=1e-4)

# Every stage of the compilation can be printed.
print(mod.get_source("c").splitlines()[-1])
print(len(mod.get_source("asm").splitlines()), "lines of assembly")
