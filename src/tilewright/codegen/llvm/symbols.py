"""Names of compiled functions in machine code.

LLVM itself calls the C library: `floor` on a CPU without the instruction, `memset` for a loop of
stores. A kernel of that name would be called instead of it, by itself, without end. Such a kernel
is called `floor.kernel` in machine code, a name that nothing else can have.
"""

from __future__ import annotations

from tilewright.native.abi import MATH_FUNCTIONS

_OTHERS = (
    "abort abs atexit bcmp bcopy bzero calloc exit fputs free getenv index labs llabs main malloc "
    "memccpy memchr memcmp memcpy memmove mempcpy memset printf putchar puts qsort realloc signal "
    "stpcpy strcat strchr strcmp strcpy strlen strncmp strncpy time write read open close"
)
_C_LIBRARY = MATH_FUNCTIONS | frozenset(_OTHERS.split())
# Of our runtime, of LLVM's intrinsics, and of the libraries of compilers.
_TAKEN_PREFIXES = ("tw_", "llvm.", "__")


def is_taken(name: str) -> bool:
    """Whether a name may already mean something to LLVM, to C, or to our runtime."""
    return name in _C_LIBRARY or name.startswith(_TAKEN_PREFIXES)


def function_symbol(name: str) -> str:
    """What a function is called in machine code."""
    # No C program can call into JIT-compiled code by accident, and libraries never export `main`.
    return f"{name}.kernel" if is_taken(name) and name != "main" else name
