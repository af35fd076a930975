"""Reads the program of a bundle and replays its trace, in a worker: both may be a stranger's."""

from __future__ import annotations

from typing import Any

import msgspec

from tilewright.database.record_check import calls_functions, unsafe_step
from tilewright.errors import StoredDataError, TilewrightError
from tilewright.ir import BufferLoad, BufferStore, IRModule
from tilewright.ir.json import save_json
from tilewright.ir.patterns import nodes_of
from tilewright.ir.verify import verify_well_formed
from tilewright.records import TuningRecord, Workload, normalize_mod
from tilewright.schedule import Trace
from tilewright.script import from_source

PERFORM = "tilewright.sharing.bundle_task:perform"
MOST_BYTES = 64 << 20


class ReadRequest(msgspec.Struct, frozen=True, array_like=True):
    """What is to be read."""

    program: str
    trace: list[Any]


class ReadProgram(msgspec.Struct, frozen=True, array_like=True):
    """The program as it is and as it is scheduled, or what is wrong with it."""

    plain: str = ""
    scheduled: str = ""
    complaint: str = ""


def perform(payload: bytes) -> bytes:
    """The task."""
    request = msgspec.msgpack.decode(payload, type=ReadRequest)
    try:
        made = _read(request)
    except TilewrightError as error:
        made = ReadProgram(complaint=str(error))
    return msgspec.msgpack.encode(made)


def _read(request: ReadRequest) -> ReadProgram:
    plain = normalize_mod(from_source(request.program, filename="its program"))
    verify_well_formed(plain)
    _refuse_dangerous(plain)
    record = TuningRecord(Trace.from_json(request.trace), Workload(plain))
    step = unsafe_step(record)
    if step is not None:
        raise StoredDataError(f"its schedule has the step {step}, which may change results")
    made = ReadProgram(save_json(plain), save_json(record.as_measure_candidate().sch.mod))
    if len(made.plain) + len(made.scheduled) > MOST_BYTES:
        raise StoredDataError(f"its program has more than {MOST_BYTES:,} characters")
    return made


def _refuse_dangerous(plain: IRModule) -> None:
    """Native code can do what it likes: only arithmetic on its own arguments may become that."""
    if calls_functions(plain):
        raise StoredDataError("its program calls functions, which could do anything")
    for func in plain.functions.values():
        for store in nodes_of(func.body, BufferStore):
            if any(True for index in store.indices for _ in nodes_of(index, BufferLoad)):
                raise StoredDataError(
                    "its program writes to places that it reads from arrays, which could be "
                    "anywhere in memory"
                )
