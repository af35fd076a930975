"""Math functions on scalars and vectors as self-contained LLVM IR text.

No math library is linked into a kernel, so every function LLVM would turn into a library call is
written out here: branch-free polynomial code for any lane count, float32 and float64 directly,
float16 and bfloat16 through float32. Code generation asks `definition` for each (op, dtype, lanes)
that a program uses, calls the function by its name and appends the text once to its module.

The stated accuracy needs a machine with fused multiply-add (x86-64 since Haswell, every aarch64);
without it the same text still compiles and is correct to a few more ulp. `floor`, `ceil`, `trunc`,
`rint`, `nearbyint` and `round` need SSE4.1, `fma` needs FMA and float16 needs F16C on x86: below
those LLVM falls back to library calls.
"""

from __future__ import annotations

from tilewright.codegen.llvm.vector_math.emitter import Helper as Helper
from tilewright.codegen.llvm.vector_math.registry import *  # noqa: F403 - its `__all__`
