"""Tutorial 4: `tw.compile`, or programs as functions that take arrays and return arrays.

Run it: python docs/tutorials/04_compile.py
"""

import pickle

import numpy as np

import tilewright as tw
from tilewright.script import tir as T


# Sizes may be symbolic. Outputs are not passed: they are allocated and returned.
@tw.compile
@T.prim_func
def softmax(x_: T.handle, y_: T.handle):
    n, m = T.int32(), T.int32()
    x = T.match_buffer(x_, (n, m))
    y = T.match_buffer(y_, (n, m))
    top = T.alloc_buffer((n,))
    total = T.alloc_buffer((n,))
    for i, j in T.grid(n, m):
        with T.block("top"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], x[vi, vj])
    for i, j in T.grid(n, m):
        with T.block("total"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(x[vi, vj] - top[vi])
    for i, j in T.grid(n, m):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.exp(x[vi, vj] - top[vi]) / total[vi]


for rows in (4, 5):
    x = np.random.rand(rows, 1000).astype("float32")
    y = softmax(x)
    np.testing.assert_allclose(y.sum(axis=1), np.ones(rows), rtol=1e-5)
print(softmax)  # each size got a kernel of its own; after 8 sizes the others share one

# `out=` names an array for the result, which may be the input.
assert softmax(x, out=x) is x
np.testing.assert_array_equal(x, y)

# The kernel of each size can be inspected, timed and exported.
softmax.show(n=4, m=1000)
mod = softmax.module(n=4, m=1000)


# Arguments that are read and written are left alone: a changed copy comes back. `out=w` for a call,
# or `inplace=True` for all, change the array itself.
@tw.compile
@T.prim_func
def step(w: T.Buffer((8,)), g: T.Buffer((8,)), rate: T.float32):
    for i in T.serial(8):
        with T.block("w"):
            vi = T.axis.spatial(8, i)
            w[vi] = w[vi] - rate * g[vi]


w, g = np.ones(8, "float32"), np.full(8, 2, "float32")
assert step(w, g, 0.25).tolist() == [0.5] * 8
assert w.tolist() == [1.0] * 8
step(w, g, 0.25, out=w)
assert w.tolist() == [0.5] * 8

# Arguments that stay the same can be bound; weights that a kernel packs are then packed once.
descend = step.bind(g=g, rate=0.25)
assert descend(w).tolist() == [0.0] * 8

# With `tune=` a search looks for a faster schedule when a size is first seen: a number of trials,
# or a time such as "10s". With `database="tuned.db"` later runs reuse what was found.
tuned = tw.compile(softmax.program, tune=4)
np.testing.assert_allclose(tuned(y), softmax(y), rtol=1e-5)

# Functions can be pickled. The schedules that were chosen travel along, machine code does not.
again = pickle.loads(pickle.dumps(tuned))
np.testing.assert_array_equal(again(y), tuned(y))
