"""Two records of an int8 product on a GPU, taken by TVM: they replay, to the program TVM made."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright.intrin  # noqa: F401
from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import verify_trace_roundtrip

RECORDS = Path(__file__).parent / "records"


@T.prim_func
def dense(
    X: T.Buffer((1024, 1024), "int8"),
    W: T.Buffer((1024, 1024), "int8"),
    compute: T.Buffer((1024, 1024), "int32"),
) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
    for i, j, k in T.grid(1024, 1024, 1024):
        with T.block("compute"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(X[vi, vk], W[vj, vk])
            T.writes(compute[vi, vj])
            with T.init():
                compute[vi, vj] = 0
            compute[vi, vj] = compute[vi, vj] + T.Cast("int32", X[vi, vk]) * T.Cast(
                "int32", W[vj, vk]
            )


@pytest.mark.parametrize("record", ["dense_dp4a_1", "dense_dp4a_2"])
def test_record_replays(record: str, golden: Callable[[str, str], None]) -> None:
    trace = json.loads((RECORDS / f"{record}.json").read_text(encoding="utf-8"))
    module = IRModule({"main": dense})
    sch = Schedule(module, debug_mask="all")
    Trace.apply_json_to_schedule(trace, sch)
    assert sch.trace is not None
    assert sch.trace.as_json() == trace
    verify_trace_roundtrip(sch, module)
    golden(f"{record}.txt", sch.mod.script() + "\n")
