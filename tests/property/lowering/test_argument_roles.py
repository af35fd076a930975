"""What is said of the arguments of random programs is true when they run."""

from __future__ import annotations

import random

import numpy as np

from tilewright.ir import PrimFunc
from tilewright.lowering.argument_roles import Role, argument_roles, is_fully_written
from tilewright.script import from_source
from tilewright.testing import oracle

SIZE = 12
N = 3  # the largest value of the scalar that some loops run up to
PROGRAMS = 400


def index(rng: random.Random, loops: dict[str, int]) -> str:
    """An index in bounds: a constant, or some loops forwards or backwards, with a step."""
    low = high = 0
    terms = []
    for name, extent in loops.items():
        factor = rng.choice([0, 0, 1, 1, -1, 2, extent])
        if factor:
            terms.append(f"{name} * {factor}")
            reach = factor * (extent - 1)
            low, high = low + min(0, reach), high + max(0, reach)
    if high - low >= SIZE:
        return str(rng.randrange(SIZE))
    return " + ".join([*terms, str(rng.randint(-low, SIZE - 1 - high))])


def statements(rng: random.Random, loops: dict[str, int], depth: int) -> list[str]:
    made = []
    for number in range(rng.randint(1, 3)):
        if depth < 2 and rng.random() < 0.6:
            name, extent = f"i{depth}_{number}", rng.choice(["2", "3", "5", "12", "n"])
            made.append(f"for {name} in T.serial({extent}):")
            reach = N if extent == "n" else int(extent)
            body = statements(rng, {**loops, name: reach}, depth + 1)
        elif loops and rng.random() < 0.2:
            name = rng.choice(list(loops))
            made.append(f"if {name} {rng.choice(['>', '<', '=='])} {rng.randrange(3)}:")
            body = statements(rng, loops, 2)
        else:
            value = rng.choice(
                [f"a[{index(rng, loops)}]", f"b[{index(rng, loops)}]", "T.float32(1)"]
            )
            made.append(f"b[{index(rng, loops)}] = {value} + T.float32(1)")
            continue
        made += ["    " + line for line in body]
    return made


def program(seed: int) -> PrimFunc:
    lines = statements(random.Random(seed), {}, 0)
    text = "\n".join(f"    {line}" for line in lines)
    head = f"@T.prim_func\ndef f(a: T.Buffer(({SIZE},)), b: T.Buffer(({SIZE},)), n: T.int32):\n"
    made = from_source(head + text + "\n")
    assert isinstance(made, PrimFunc)
    return made


def result(func: PrimFunc, before: float, n: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    a, b = np.arange(SIZE, dtype="float32"), np.full(SIZE, before, "float32")
    oracle.run(func, a, b, n)
    return b


def test_outputs_do_not_depend_on_what_was_there_before() -> None:
    claims = {Role.OUTPUT: 0, Role.UPDATE: 0}
    complete = 0
    for seed in range(PROGRAMS):
        func = program(seed)
        role = argument_roles(func)[1]
        claims[role] += 1
        if role is not Role.OUTPUT:
            continue
        buffer = func.buffer_params()[1]
        assert buffer is not None
        is_complete = is_fully_written(func, buffer)
        complete += is_complete
        for n in range(N + 1):
            first, second = result(func, 1e6, n), result(func, -1e6, n)
            same, untouched = first == second, (first == 1e6) & (second == -1e6)
            allowed = same if is_complete else same | untouched
            assert allowed.all(), f"seed {seed}, n = {n}\n{func}"
    assert min(claims.values()) > PROGRAMS // 10
    assert complete > PROGRAMS // 50
