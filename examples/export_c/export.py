"""Compile a kernel into a shared library that a C program can call: export.py [folder]."""

import sys
from pathlib import Path

import tilewright as tw
from tilewright.script import tir as T


@T.prim_func
def main(x: T.handle, y: T.handle):
    """Each element becomes the mean of itself and its neighbours."""
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    X = T.match_buffer(x, (n,), "float32")
    Y = T.match_buffer(y, (n,), "float32")
    assert n > 0, "the signal is empty"
    for i in T.parallel(n):
        left = T.max(i - 1, T.int64(0))
        right = T.min(i + 1, n - 1)
        Y[i] = (X[left] + X[i] + X[right]) / T.float32(3)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    for file in tw.build(main).export_library(folder / "smooth.so"):
        print("wrote", file)
