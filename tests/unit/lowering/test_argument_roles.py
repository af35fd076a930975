"""What functions do with their arguments; what cannot be proven counts as changed."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.ir import PrimFunc
from tilewright.lowering.argument_roles import Role, argument_roles, is_fully_written
from tilewright.script import from_source
from tilewright.testing import oracle

HEAD = "@T.prim_func\ndef f(a: T.Buffer((8,)), b: T.Buffer((8,))):\n"


def program(*lines: str) -> PrimFunc:
    made = from_source(HEAD + "".join(f"    {line}\n" for line in lines))
    assert isinstance(made, PrimFunc)
    return made


LOOP, FOUR = "for i in T.serial(8):", "for i in T.serial(4):"
POSITIVE = "T.broadcast(a[0] > T.float32(0), 8)"
PROGRAMS = {
    "a map": (program(LOOP, "    b[i] = a[i]"), "output", True),
    "half of it": (program(FOUR, "    b[i] = a[i]"), "output", False),
    "every other": (program(FOUR, "    b[i * 2] = a[i]"), "output", False),
    "two halves": (
        program(
            FOUR,
            "    b[i] = a[i]",
            FOUR,
            "    b[i + 4] = a[i]",
        ),
        "output",
        True,
    ),
    "where data say": (
        program(LOOP, "    if a[i] > T.float32(0):", "        b[i] = a[i]"),
        "output",
        False,
    ),
    "an update": (program(LOOP, "    b[i] = b[i] + a[i]"), "update", False),
    "read afterwards": (
        program(LOOP, "    b[i] = a[i]", LOOP, "    b[i] = b[i] * b[7 - i]"),
        "output",
        True,
    ),
    "read before": (program(LOOP, "    b[i] = b[7 - i]"), "update", False),
    "a scan": (
        program("b[0] = a[0]", "for i in T.serial(7):", "    b[i + 1] = b[i] + a[i + 1]"),
        "output",
        True,
    ),
    "a scan that jumps": (
        program("b[0] = a[0]", "for i in T.serial(6):", "    b[i + 2] = b[i] + a[i + 1]"),
        "update",
        False,
    ),
    "a scan from the end": (
        program("b[7] = a[7]", "for i in T.serial(7):", "    b[6 - i] = b[7 - i] + a[i]"),
        "output",
        True,
    ),
    "a scan that looks ahead": (
        program("b[0] = a[0]", "for i in T.serial(7):", "    b[i + 1] = b[i + 1] + b[i]"),
        "update",
        False,
    ),
    "a scan where data say": (
        program(
            "b[0] = a[0]",
            "for i in T.serial(7):",
            "    if a[i] > T.float32(2):",
            "        b[i + 1] = a[i]",
            "    b[i + 1] = b[i] + b[i + 1]",
        ),
        "update",
        False,
    ),
    "a scan in parallel": (
        program("b[0] = a[0]", "for i in T.parallel(7):", "    b[i + 1] = b[i] + a[i + 1]"),
        "update",
        False,
    ),
    "a scan under other tests": (
        program(
            FOUR,
            "    for j in T.serial(2):",
            "        if j == 1 and i > 0:",
            "            a[i] = b[i * 2 - 2]",
            "        if j >= 1:",
            "            b[i * 2 + j] = a[j]",
        ),
        "update",
        False,
    ),
    "writes after reads": (
        program(
            "for i in T.serial(8):",
            "    if i > 0:",
            "        b[i - 1] = b[i - 1] * b[i - 1]",
            "    b[i] = a[i]",
        ),
        "output",
        True,
    ),
    "a scan without a start": (
        program("for i in T.serial(7):", "    b[i + 1] = b[i] + a[i + 1]"),
        "update",
        False,
    ),
    "a place that data say": (
        program(LOOP, "    b[T.cast(a[i], 'int32')] = a[i]"),
        "output",
        False,
    ),
    "a masked store": (
        program(f"b.vstore([T.ramp(0, 1, 8)], a[0:8], predicate={POSITIVE})"),
        "output",
        False,
    ),
    "a pointer": (program("T.evaluate(T.call_extern('int32', 'g', b.data))"), "update", False),
    "not at all": (program("a[0] = T.float32(1)"), "input", False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_roles(name: str) -> None:
    func, role, complete = PROGRAMS[name]
    assert argument_roles(func)[1] is Role(role)
    buffer = func.buffer_params()[1]
    assert buffer is not None
    assert is_fully_written(func, buffer) is complete


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "pointer" not in name])
def test_what_is_said_is_true(name: str) -> None:
    """Outputs do not depend on what was there before, except where they are not written."""
    func, role, complete = PROGRAMS[name]
    a = np.array([3, 1, 0, 2, 5, 4, 7, 6], "float32")
    before = (np.zeros(8, "float32"), np.ones(8, "float32"))
    after = []
    for start in before:
        b = start.copy()
        oracle.run(func, a.copy(), b)
        after.append(b)
    kept = (after[0] == before[0]) & (after[1] == before[1])
    same = after[0] == after[1]
    if role == "output":
        assert (same | kept).all()
    if complete:
        assert same.all()


def test_a_sum_begins_with_its_init_whatever_its_length() -> None:
    n, k = te.var("n"), te.var("k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, 8), name="B")
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    assert argument_roles(func) == (Role.INPUT, Role.INPUT, Role.OUTPUT)


def test_views_are_seen_through() -> None:
    func = from_source(
        "@T.prim_func\n"
        "def f(a: T.Buffer((8,)), b: T.Buffer((8,))):\n"
        "    for i in T.serial(8):\n"
        "        with T.block('copy'):\n"
        "            vi = T.axis.spatial(8, i)\n"
        "            T.reads(a[vi])\n"
        "            T.writes(b[vi])\n"
        "            view = T.match_buffer(b[vi], (), 'float32', offset_factor=1)\n"
        "            view[()] = a[vi]\n"
    )
    assert isinstance(func, PrimFunc)
    assert argument_roles(func) == (Role.INPUT, Role.OUTPUT)


def test_scheduled_programs_keep_their_roles() -> None:
    a, b = te.placeholder((33, 65), name="A"), te.placeholder((65, 17), name="B")
    func = te.create_prim_func([a, b, topi.nn.relu(topi.matmul(a, b))])
    scheduled = tw.meta_schedule.default_schedule(func).mod["main"]
    assert argument_roles(scheduled) == argument_roles(func)


def test_a_loop_that_may_not_run_writes_nothing() -> None:
    func = from_source(
        "@T.prim_func\n"
        "def f(n: T.int32, b: T.Buffer((8,))):\n"
        "    for i, j in T.grid(n, 5):\n"
        "        b[i + j] = T.float32(1)\n"
        "    b[7] = b[0]\n"
    )
    assert isinstance(func, PrimFunc)
    assert argument_roles(func) == (Role.INPUT, Role.UPDATE)
