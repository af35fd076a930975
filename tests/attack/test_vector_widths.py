"""Vectors of any width and type are compiled; LLVM must never end the process.

The slow test goes through the table of vectors that LLVM is known to compile. Programs are compiled
in a child process. LLVM is told to produce code for machines that differ in what they have in
hardware, so that the group finds the same on every machine.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tilewright.ir import DType
from tilewright.target.vector_types import MAX_VECTOR_BYTES, known_lanes

DTYPES = (
    "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64", "bool",
    "int4", "uint4", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64",
)  # fmt: skip
KINDS = (
    "copy", "cast", "add", "divide", "select", "guard", "compare", "stride", "reverse", "gather",
    "maximum", "predicate", "scatter", "reduce", "constant",
)  # fmt: skip
# None of them has instructions for all types: no float16, no masks, no bfloat16; and all of them.
MACHINES = (
    "x86-64", "haswell", "skylake-avx512", "cooperlake", "sapphirerapids", "znver4",
    "cortex-a72", "carmel", "neoverse-v1",
)  # fmt: skip
Case = tuple[str, str, int, str, str]  # kind, dtype, lanes, other dtype, machine

# The widths that used to abort, each beside a power of two.
KNOWN: tuple[Case, ...] = tuple(
    (kind, "bfloat16", lanes, "float32", "cooperlake")
    for kind in ("copy", "reverse", "predicate", "scatter")
    for lanes in (9, 17, 33, 65, 129)
)

_CHILD = """
import sys
import llvmlite.binding
from tilewright.codegen.llvm.module import generate
from tilewright.driver import compile_lowered, lower, resolve_target
from tilewright.errors import CodegenError
from tilewright.script import from_source

llvmlite.binding.initialize_all_targets()
llvmlite.binding.initialize_all_asmprinters()
ARM = ("cortex-a72", "carmel", "neoverse-v1")
TRIPLES = {name: "aarch64-linux-gnu" for name in ARM}

VALUES = {
    "copy": "a[v]", "cast": "T.Cast('{other}', a[v])", "add": "a[v] + a[v + 1]",
    "divide": "T.Cast('{dtype}', T.Cast('{wide}', a[v]) {slash} T.Cast('{wide}', a[v + 1]))",
    "select": "T.Select(v % 3 == 1, a[v], a[v + 1])",
    "guard": "T.if_then_else(v % 3 == 1, a[v], a[v + 1])",
    "compare": "a[v] < a[v + 1]", "stride": "a[v * 3]", "reverse": "a[{size} - 1 - v]",
    "gather": "a[p[v]]", "maximum": "T.max(a[v], a[v + 1])", "predicate": "a[v]",
    "scatter": "a[v]", "reduce": "b[v] + a[v]", "constant": "T.Cast('{dtype}', 1)",
}
BOOLS = {"add": "a[v] and a[v + 1]", "divide": "a[v] or a[v + 1]", "reduce": "b[v] or a[v]",
         "compare": "a[v] != a[v + 1]", "maximum": "not a[v]"}
PROGRAM = '''
@T.prim_func
def f(a: T.Buffer(({size} * 4,), "{dtype}"), p: T.Buffer(({size},), "int32"),
      b: T.Buffer(({size} * 3,), "{result}")):
    for o in range(2):
        for i in T.vectorized({lanes}):
            with T.block("b"):
                v = T.axis.spatial({size}, o * {lanes} + i)
                {condition}
                b[{place}] = {value}
'''

def text(kind, dtype, lanes, other):
    fields = {"dtype": dtype, "lanes": lanes, "size": 2 * lanes, "other": other}
    fields["wide"] = "float32" if "float" in dtype else "int32"
    fields["slash"] = "/" if "float" in dtype else "//"
    value = BOOLS.get(kind) if dtype == "bool" else None
    fields["value"] = (value or VALUES[kind]).format(**fields)
    fields["result"] = {"cast": other, "compare": "bool"}.get(kind, dtype)
    fields["place"] = "v * 3" if kind == "scatter" else "v"
    last = 2 * lanes - 1
    fields["condition"] = f"T.where(o * {lanes} + i < {last})" if kind == "predicate" else "pass"
    return PROGRAM.format(**fields).replace("                pass\\n", "")

for line in sys.stdin:
    kind, dtype, lanes, other, machine = line.split()
    print(line, end="", flush=True)
    triple = TRIPLES.get(machine, "x86_64-linux-gnu")
    target = resolve_target(f"llvm -mtriple={triple} -mcpu={machine}")
    lowered = lower(from_source(text(kind, dtype, int(lanes), other)), target)
    try:
        unknown = generate(lowered, target).unknown_vectors()
        assert not unknown, unknown
        compile_lowered(lowered, target)
    except CodegenError as error:  # a machine without float16 says so
        assert "needs the CPU feature" in str(error), error
print("done", flush=True)
"""


def _compile(cases: Sequence[Case]) -> None:
    lines = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=lines, capture_output=True, text=True, check=False, env=dict(os.environ),
    )  # fmt: skip
    last = done.stdout.splitlines()[-1] if done.stdout else "nothing"
    assert done.returncode == 0, f"at {last}: {done.stderr[-2000:]}"
    assert last == "done"


def test_widths_that_used_to_abort() -> None:
    _compile(KNOWN)


def _random_case(lanes: int, rng: random.Random) -> Case:
    kind, dtype, other = rng.choice(KINDS), rng.choice(DTYPES), rng.choice(DTYPES)
    return kind, dtype, lanes, other, rng.choice(MACHINES)


def test_random_widths_and_types(attack_seeds: list[int]) -> None:
    cases = []
    for seed in attack_seeds:
        rng = random.Random(seed)
        cases += [_random_case(rng.randrange(2, 66), rng) for _ in range(4)]
    _compile(cases)


def _table(dtype: str) -> list[int]:
    """The lanes of all known vectors of a type."""
    size = max(1, DType(dtype).bits // 8)
    return [n for n in range(2, MAX_VECTOR_BYTES + 1) if known_lanes(n, size) == n]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_kind_of_every_known_vector(machine: str, dtype: str) -> None:
    others = {"cast": DTYPES}
    _compile(
        [
            (kind, dtype, lanes, other, machine)
            for lanes in _table(dtype)
            for kind in KINDS
            for other in others.get(kind, ("float32",))
        ]
    )
