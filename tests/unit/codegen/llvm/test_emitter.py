"""Hoisting and sharing while text is written."""

from __future__ import annotations

from tilewright.codegen.llvm.emitter import FunctionEmitter, Value


def test_equal_instructions_are_written_once() -> None:
    emitter = FunctionEmitter()
    x = Value("i64", "%x")
    first = emitter.pure("i64", "add i64 %x, 1", (x,))
    assert emitter.pure("i64", "add i64 %x, 1", (x,)) == first
    assert emitter.body() == "entry:\n  %v1 = add i64 %x, 1"


def test_pure_instructions_rise_to_their_operands() -> None:
    emitter = FunctionEmitter()
    outside = Value("i64", "%x")
    emitter.open_region("outer")
    inside = emitter.here("i64", "load i64, ptr %p")
    emitter.open_region("inner")
    high = emitter.pure("i64", "mul i64 %x, 2", (outside,))
    middle = emitter.pure("i64", "mul i64 %v1, 2", (inside, high))
    assert (high.depth, middle.depth) == (0, 1)
    assert emitter.current.lines == []
    emitter.place(emitter.close_region(), "inner")
    assert emitter.current.lines[:2] == ["  %v1 = load i64, ptr %p", "  %v3 = mul i64 %v1, 2"]


def test_what_a_branch_made_is_unknown_behind_it() -> None:
    emitter = FunctionEmitter()
    emitter.open_region("then")
    loaded = emitter.here("i64", "load i64, ptr %p")
    emitter.pure("i64", "add i64 %v1, 1", (loaded,))
    emitter.place(emitter.close_region(), "then")
    assert emitter.current.known == {}
    assert emitter.current.label == "then"


def test_a_check_is_claimed_once_on_every_way() -> None:
    emitter = FunctionEmitter()
    emitter.open_region("then")
    assert emitter.claim("nonzero %n")
    assert not emitter.claim("nonzero %n")
    emitter.place(emitter.close_region(), "then")
    assert emitter.claim("nonzero %n")  # the branch may not have been taken
    emitter.open_region("again")
    assert not emitter.claim("nonzero %n")


def test_stack_memory_comes_first_under_names_of_its_own() -> None:
    emitter = FunctionEmitter()
    emitter.line("call void @f()")
    names = {emitter.alloca("alloca i64").text, emitter.alloca("alloca i64").text}
    names |= {f"%{emitter.fresh('stack')}"}
    assert len(names) == 3
    assert emitter.body().splitlines()[1].endswith("alloca i64")
