"""Kernels as readable CUDA C++ without headers, their machine code, and plans of their launches.

types.py        types, constants and names
prelude.py      functions and types that a kernel needs
small_floats.py structures for floats of 16 and 8 bits
expressions.py  expressions, vectors one lane at a time
calls.py        builtin operators: mathematics, addresses, warps, atomics
ptx.py          instructions that C++ has no name for: ldmatrix, cp.async
mma.py          products of matrices in registers
wmma.py         matrix fragments
vectors.py      loads and stores of whole vectors
register_indices.py  loops that must be unrolled for the sake of registers
statements.py   statements
module.py       the file
compiler.py     machine code, its resources and texts
launch_plan.py  host functions as data
loading.py      machine code in memory of a GPU, and functions that carry out a plan
launcher.py     launches of one kernel
"""

from tilewright.codegen.cuda.module import generate_source

__all__ = ["generate_source"]
