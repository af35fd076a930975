"""The values that travel: records in JSON, and which of them may be used."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tilewright.errors import TuneError
from tilewright.records import (
    FAILED_RUN_SECS,
    FailureKind,
    TuningRecord,
    Workload,
    read_target,
)
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, matmul

MATMUL = Workload(matmul(1024, 1024, 1024), 0)
# As older versions of TVM wrote it: no flags of Split, an attribute that is gone.
OLD: list[Any] = [
    [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
            ["Split", ["l1", 1, 1, 2, 512], [], ["l4", "l5", "l6", "l7"]],
            ["Split", ["l2", 1, 512, 1, 2], [], ["l8", "l9", "l10", "l11"]],
            ["Split", ["l3", 256, 4], [], ["l12", "l13"]],
            [
                "Reorder",
                ["l4", "l8", "l5", "l9", "l12", "l6", "l10", "l13", "l7", "l11"],
                [],
                [],
            ],
        ],
        [],
    ],
    [1.5, 2.5, 1.8],
    {"kind": "llvm", "tag": "", "keys": ["cpu"], "link-params": 0},
    [["TENSOR", "float32", [1024, 1024]]] * 3,
]


def test_records_in_json() -> None:
    record = a_record(MATMUL, 1.5, 2.5)
    document = record.as_json()
    assert document[1:] == [
        [1.5, 2.5],
        {"keys": ["cpu"], "kind": "llvm", "num-cores": 4, "tag": ""},
        [["TENSOR", "float32", [1024, 1024]]] * 3,
    ]
    again = TuningRecord.from_json(document, MATMUL)
    assert again.as_json() == document
    assert (again.target, again.args_info) == (record.target, record.args_info)
    bare = TuningRecord(record.trace, MATMUL)
    assert TuningRecord.from_json(bare.as_json(), MATMUL).as_json()[1:] == [None, None, None]


def test_records_of_older_versions() -> None:
    record = TuningRecord.from_json(OLD, MATMUL)
    assert record.target == Target("llvm")
    assert record.as_json()[1:] == OLD[1:]
    loops = record.as_measure_candidate().sch.get_loops("C")
    assert len(loops) == 10


def test_damaged_records() -> None:
    text = "a tuning record in JSON is [trace, run_secs, target, args_info]"
    damaged: list[Any] = [[], OLD[:3], [OLD[0], 1.0, None, None], {"trace": []}]
    for document in damaged:
        with pytest.raises(TuneError, match=re.escape(text)):
            TuningRecord.from_json(document, MATMUL)
    with pytest.raises(TuneError, match=re.escape('expected ["TENSOR", dtype, shape], got')):
        TuningRecord.from_json([*OLD[:3], [["SCALAR", 1]]], MATMUL)


@pytest.mark.parametrize(
    ("secs", "failure", "expected"),
    [
        ((1.0,), None, True),
        ((1.0, FAILED_RUN_SECS), None, True),
        ((FAILED_RUN_SECS,), None, False),
        ((), None, False),
        (None, None, False),
        ((1.0,), FailureKind.WRONG_RESULT, False),
        ((float("nan"),), None, False),
    ],
)
def test_validity(
    secs: tuple[float, ...] | None, failure: FailureKind | None, expected: bool
) -> None:
    trace = a_record(MATMUL, 1.0).trace
    assert TuningRecord(trace, MATMUL, secs, failure=failure).is_valid is expected


def test_targets_of_records() -> None:
    assert read_target({"kind": "llvm", "num-cores": 4, "jit": "mcjit"}) == Target(LLVM)
    assert read_target({"kind": "hexagon"}) is None
    assert read_target({}) is None
    assert read_target({"kind": "llvm", "num-cores": "many"}) is None
