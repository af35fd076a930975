"""Traces: texts, replay, simplification, and JSON that makes no sense."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tilewright.errors import RegistryError, ScheduleError, TilewrightError
from tilewright.ir import Block, PrimFunc, assert_structural_equal
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.testing.schedule_checks import verify_trace_roundtrip


def tiled(func: PrimFunc, seed: int = 42) -> Schedule:
    sch = Schedule(func, seed=seed, debug_mask="all")
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 2, 16))
    unroll = sch.sample_categorical([0, 16, 64], [0.2, 0.3, 0.5])
    sch.annotate(block, "unroll", unroll)
    sch.enter_postproc()
    sch.parallel(j)
    return sch


def trace_of(sch: Schedule) -> Trace:
    assert sch.trace is not None
    return sch.trace


PYTHON = """\
# from tilewright import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name="C", func_name="main")
  l1, l2, l3 = sch.get_loops(block=b0)
  v4, v5 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16, decision=[8, 4])
  l6, l7 = sch.split(loop=l1, factors=[v4, v5], preserve_unit_iters=True)
  v8 = sch.sample_categorical(candidates=[0, 16, 64], probs=[0.20000000000000001, \
0.29999999999999999, 0.5], decision=1)
  sch.annotate(block_or_loop=b0, ann_key="unroll", ann_val=v8)
  sch.enter_postproc()
  sch.parallel(loop=l2)"""

JSON: list[Any] = [
    [
        ["GetBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l1"], [2, 16], ["v4", "v5"]],
        ["Split", ["l1", "v4", "v5"], [1], ["l6", "l7"]],
        ["SampleCategorical", [], [[0, 16, 64], [0.2, 0.3, 0.5]], ["v8"]],
        ["Annotate", ["b0", "v8"], ["unroll"], []],
        ["EnterPostproc", [], [], []],
        ["Parallel", ["l2"], [], []],
    ],
    [[2, [8, 4]], [4, 1]],
]


def test_texts(matmul: PrimFunc) -> None:
    sch = tiled(matmul)
    assert str(sch.trace) == PYTHON
    assert trace_of(sch).as_json() == JSON
    assert trace_of(sch).as_json(remove_postproc=True) == [JSON[0][:6], JSON[1]]
    assert len(trace_of(sch).as_python(remove_postproc=True)) == 6
    assert str(Trace()).endswith("-> None:\n  pass")
    verify_trace_roundtrip(sch, matmul)


def test_show(matmul: PrimFunc, capsys: pytest.CaptureFixture[str]) -> None:
    trace_of(tiled(matmul)).show()
    assert capsys.readouterr().out == PYTHON + "\n"


def test_one_result_of_a_list_is_unpacked(matmul: PrimFunc) -> None:
    sch = Schedule(matmul)
    sch.get_child_blocks(sch.get_block("root"))
    assert trace_of(sch).as_python()[1] == "b1, = sch.get_child_blocks(b0)"
    sch.get_producers("C")
    assert trace_of(sch).as_python()[3] == "sch.get_producers(block=b2)"


def test_append_and_pop(matmul: PrimFunc) -> None:
    sch = tiled(matmul)
    trace = trace_of(sch).copy()
    last = trace.pop()
    assert last is not None
    assert last.primitive.kind == "Parallel"
    assert len(trace.insts) == len(trace_of(sch).insts) - 1
    sampled = next(i for i in trace.insts if i.primitive.kind == "SamplePerfectTile")
    assert trace.get_decision(sampled) == [8, 4]
    assert trace.get_decision(trace.insts[0]) is None
    trace.append(last)
    assert str(trace) == PYTHON
    assert Trace().pop() is None


def test_another_decision(matmul: PrimFunc) -> None:
    sch = tiled(matmul)
    sampled = trace_of(sch).insts[2]
    changed = trace_of(sch).with_decision(sampled, [4, 8], remove_postproc=True)
    again = Schedule(matmul, debug_mask="all")
    changed.apply_to_schedule(again, remove_postproc=False)
    assert "for i_0, i_1, j, k in T.grid(4, 8, 48, 24):" in again.mod.script()
    assert trace_of(sch).get_decision(sampled) == [8, 4]
    assert len(changed.insts) == 6


def test_a_provider_of_decisions(matmul: PrimFunc) -> None:
    seen: list[tuple[str, Any]] = []

    def provide(
        inst: Instruction, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
    ) -> Any:
        seen.append((inst.primitive.kind, decision))
        return [2, 16] if inst.primitive.kind == "SamplePerfectTile" else decision

    again = Schedule(matmul, debug_mask="all")
    trace_of(tiled(matmul)).apply_to_schedule(again, True, provide)
    assert "for i_0, i_1, j, k in T.grid(2, 16, 48, 24):" in again.mod.script()
    assert seen[2] == ("SamplePerfectTile", [8, 4])
    assert seen[4] == ("SampleCategorical", 1)
    assert len(seen) == 6


def test_replay_is_the_same(matmul: PrimFunc) -> None:
    sch = tiled(matmul)
    again = Schedule(matmul, debug_mask="all")
    trace_of(sch).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    assert str(again.trace) == PYTHON


def test_simplified(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=1)
    sch.get_consumers("C")  # nobody uses it, nor the name it looked up
    i, j, _ = sch.get_loops("C")
    sch.sample_perfect_tile(j, 2)
    sch.parallel(i)
    sch.enter_postproc()
    simple = trace_of(sch).simplified(remove_postproc=True)
    assert simple.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "sch.parallel(loop=l1)",
    ]
    again = Schedule(matmul)
    simple.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_trace_of_another_program(matmul: PrimFunc, chain: PrimFunc) -> None:
    target = Schedule(chain)
    text = "get_loops gave 2 results where the trace has 3: it was recorded on another program"
    with pytest.raises(ScheduleError, match=text):
        trace_of(tiled(matmul)).apply_to_schedule(target, remove_postproc=False)


# --- JSON that makes no sense -------------------------------------------------------------------

Spoil = Callable[[list[Any], list[Any]], Any]


def put(position: int, inst: Any) -> Spoil:
    def spoil(insts: list[Any], decisions: list[Any]) -> Any:
        insts[position] = inst
        return [insts, decisions]

    return spoil


def decide(entry: Any) -> Spoil:
    return lambda insts, decisions: [insts, [*decisions, entry]]


BAD: dict[str, tuple[Spoil, str]] = {
    "not a pair": (lambda i, d: [i], "a trace in JSON is a pair [instructions, decisions]"),
    "not lists": (
        lambda i, d: [i, 3],
        "a trace in JSON is a pair of lists [instructions, decisions]",
    ),
    "no instruction": (
        put(1, ["GetLoops", ["b0"], []]),
        "instruction 1 of the trace is not [kind, inputs, attrs, outputs]: "
        "['GetLoops', ['b0'], []]",
    ),
    "unknown kind": (
        put(3, ["Splitt", ["l1"], [1], []]),
        "unknown schedule instruction 'Splitt'; did you mean 'Split'?",
    ),
    "too many inputs": (
        put(1, ["GetLoops", ["b0", "b0"], [], ["l1", "l2", "l3"]]),
        "instruction 1 of the trace: GetLoops does not take 2 inputs and 0 attributes",
    ),
    "too few attributes": (
        put(0, ["GetBlock", [], ["C"], ["b0"]]),
        "instruction 0 of the trace: GetBlock does not take 0 inputs and 1 attributes",
    ),
    "unknown name": (
        put(7, ["Parallel", ["l9"], [], []]),
        "the trace uses 'l9' before it defines it",
    ),
    "too few outputs": (
        put(1, ["GetLoops", ["b0"], [], ["l1", "l2"]]),
        "instruction 1 of the trace (GetLoops) gave 3 results, the trace names 2: it was recorded "
        "on another program",
    ),
    "wrong type of argument": (
        put(2, ["SamplePerfectTile", ["l1"], ["two", 16], ["v4", "v5"]]),
        "instruction 2 of the trace cannot be carried out: SamplePerfectTile with the inputs "
        "['l1'] and the attributes ['two', 16]",
    ),
    "a block for a loop": (
        put(7, ["Parallel", ["b0"], [], []]),
        "expected a loop, found block 'C'",
    ),
    "decision for nothing": (
        decide([8, 1]),
        "the decision [8, 1] names an instruction that is not there",
    ),
    "no decision": (
        decide(["2", 1]),
        "a decision is [position of the instruction, value], got ['2', 1]",
    ),
    "decision out of range": (
        decide([4, 3]),
        "sample_categorical: the decision 3 is not the position of one of 3 candidates",
    ),
    "decision of wrong length": (
        decide([2, [1, 2, 3]]),
        "sample_perfect_tile: the decision [1, 2, 3] is not a list of 2 positive factors",
    ),
    "decision with a zero": (
        decide([2, [4, 0]]),
        "sample_perfect_tile: the decision [4, 0] is not a list of 2 positive factors",
    ),
    "split too small": (
        put(3, ["Split", ["l1", 2, 2], [1], ["l6", "l7"]]),
        "split: the factors [2, 2] of loop 'i' make 4",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_json_changes_nothing(case: str, matmul: PrimFunc) -> None:
    spoil, text = BAD[case]
    bad = spoil([list(inst) for inst in JSON[0]], list(JSON[1]))
    sch = Schedule(matmul, seed=7, debug_mask="all")
    i, j, _ = sch.get_loops("C")
    before, steps, random = sch.mod, str(sch.trace), sch.random.state
    with pytest.raises(TilewrightError, match=re.escape(text)) as failure:
        Trace.apply_json_to_schedule(bad, sch)
    assert isinstance(failure.value, (ScheduleError, RegistryError))
    assert sch.mod is before
    assert (str(sch.trace), sch.random.state) == (steps, random)
    sch.fuse(i, j)  # handles from before still work
    verify_trace_roundtrip(sch, matmul)


def test_a_trace_is_read_without_a_program(matmul: PrimFunc) -> None:
    trace = Trace.from_json(JSON)
    assert str(trace) == PYTHON
    assert trace.as_json() == JSON
    assert [trace.get_decision(inst) for inst in trace.insts[2:5]] == [[8, 4], None, 1]
    replayed = Schedule(matmul)
    trace.apply_to_schedule(replayed, remove_postproc=False)
    assert_structural_equal(replayed.mod, tiled(matmul).mod)


def test_scopes_taken_from_a_program_are_plain_strings_in_json(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    block = sch.get_block("C")
    stmt = sch.get(block)
    assert isinstance(stmt, Block)
    sch.cache_write(block, 0, stmt.writes[0].buffer.scope)
    constants = msgspec.json.encode([inst[2] for inst in trace_of(sch).as_json()[0]])
    assert constants == b'[["C","main"],[0,"global"]]'


def test_splits_of_the_oldest_traces_have_no_flags() -> None:
    insts = [*JSON[0][:3], ["Split", ["l1", "v4", "v5"], [], ["l6", "l7"]]]
    assert Trace.from_json([insts, []]).as_json()[0][3][2] == [1]


def test_results_have_names_of_a_known_kind() -> None:
    insts = [["GetBlock", [], ["C", "main"], ["x0"]]]
    text = (
        "instruction 0 of the trace (GetBlock) has a result called 'x0'; "
        "names start with b (block), l (loop) or v (number)"
    )
    with pytest.raises(ScheduleError, match=re.escape(text)):
        Trace.from_json([insts, []])
