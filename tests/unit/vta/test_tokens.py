"""Tokens: whatever order modules run in, as long as it respects tokens, results are the same."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.codegen.vta import tokens
from tilewright.codegen.vta.backend import SimulatedFunction
from tilewright.codegen.vta.program import VtaProgram
from tilewright.errors import CodegenError
from tilewright.testing.vta_schedules import schedule_conv2d, schedule_gemm
from tilewright.vta.isa import Engine, Instruction, module_of
from tilewright.vta.machine import Simulator
from tilewright.workloads.vta import QuantizedConv2d, gemm


def program_of(module: tw.IRModule) -> VtaProgram:
    function = tw.build(module, "vta")["main"]._run
    assert isinstance(function, SimulatedFunction)
    return function.program


PROGRAMS = {
    "gemm": program_of(schedule_gemm(gemm(64, 64, 64), (16, 2, 2)).mod),
    "conv2d": program_of(schedule_conv2d(QuantizedConv2d(8, 32, 32).program, (1, 4, 4, 1)).mod),
}


def any_order(program: Sequence[Instruction], rng: random.Random) -> list[int]:
    """An order of instructions in which modules race; one of them may be far ahead."""
    queues: dict[Engine, deque[int]] = {engine: deque() for engine in Engine}
    for number, each in enumerate(program):
        queues[module_of(each)].append(number)
    held, order = Counter[tuple[int, int]](), []
    eager = rng.choice(list(Engine))
    while any(queues.values()):
        ready = [
            e for e, queue in queues.items() if queue and not _missing(program, queue[0], held)
        ]
        chosen = eager if eager in ready and rng.random() < 0.9 else rng.choice(ready)
        number = queues[chosen].popleft()
        for side, step in (("prev", -1), ("next", 1)):
            held[chosen + step, chosen] -= getattr(program[number], f"pop_{side}")
            held[chosen, chosen + step] += getattr(program[number], f"push_{side}")
        order.append(number)
    assert not any(held.values())
    return order


def _missing(program: Sequence[Instruction], number: int, held: Counter[tuple[int, int]]) -> bool:
    each, engine = program[number], module_of(program[number])
    return any(
        getattr(each, f"pop_{side}") and not held[engine + step, engine]
        for side, step in (("prev", -1), ("next", 1))
    )


def memory_after(program: VtaProgram, order: Sequence[int]) -> npt.NDArray[Any]:
    memory = np.random.default_rng(0).integers(0, 256, program.memory_bytes).astype(np.uint8)
    memory[program.uop_address :] = np.array(program.uops, "<u4").view(np.uint8)
    simulator = Simulator(program.configuration, memory)
    simulator.run(program.instructions[number] for number in order)
    return memory


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_order_that_tokens_allow_gives_the_same(name: str) -> None:
    program = PROGRAMS[name]
    in_turn = list(range(len(program.instructions)))
    expected = memory_after(program, in_turn)
    for seed in range(6):
        order = any_order(program.instructions, random.Random(seed))
        assert order != in_turn
        np.testing.assert_array_equal(memory_after(program, order), expected)


@pytest.mark.parametrize(("pop", "push"), [("pop_prev", "push_next"), ("pop_next", "push_prev")])
def test_programs_without_tokens_go_wrong(pop: str, push: str) -> None:
    program = PROGRAMS["gemm"]
    expected = memory_after(program, range(len(program.instructions)))
    bare = [replace(each, **{pop: 0, push: 0}) for each in program.instructions]  # type: ignore[arg-type]
    orders = [any_order(bare, random.Random(seed)) for seed in range(6)]
    assert any((memory_after(program, order) != expected).any() for order in orders)


def test_programs_that_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_INSTRUCTIONS", 40)
    with pytest.raises(CodegenError) as raised:
        tw.build(schedule_gemm(gemm(64, 64, 64), (16, 2, 2)).mod, "vta")
    assert str(raised.value) == (
        "vta: the program has more than 40 instructions, the most that the machine reads; make its "
        "tiles larger"
    )
