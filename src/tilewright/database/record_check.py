"""Checks a record before its first use: its author may be anybody, and results must not change.

Steps that promise nothing (`unsafe_*`) are refused. All others are compared with the plain program
on random data the first time that they are used on a machine, in this process, where they will run
anyway. What was found lies in the user's cache directory, not in the database, which whoever sent
it could have filled in.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import stat
import tempfile
from functools import partial
from pathlib import Path

from tilewright.config import user_cache_dir
from tilewright.database import similarity
from tilewright.database.stored_record import digest, trace_text
from tilewright.errors import TilewrightError, TuneError
from tilewright.ir import Call, DType, IRModule
from tilewright.ir.json import save_json
from tilewright.ir.op import CallEffect, Op
from tilewright.ir.patterns import nodes_of
from tilewright.measure.argument_cache import ArgumentCache
from tilewright.measure.build_task import Scheduled, as_called, build_candidate, build_with_twins
from tilewright.measure.evaluator import AdaptiveProtocol
from tilewright.measure.local_builder import with_twins
from tilewright.measure.row_offsets import specs_of
from tilewright.measure.run_task import RunRequest, wrong_result
from tilewright.records import TuningRecord, args_info_of
from tilewright.schedule.analysis import flop_of
from tilewright.support.files import write_whole
from tilewright.target import Target
from tilewright.version import __version__

logger = logging.getLogger("tilewright.database")
_FOLDER = "checked_records"


def unsafe_step(record: TuningRecord) -> str | None:
    """The first step of a record that may change results by its nature."""
    methods = (inst.primitive.method for inst in record.trace.insts)
    return next((method for method in methods if method.startswith("unsafe_")), None)


def complaint_about(record: TuningRecord, scheduled: IRModule, target: Target) -> str:
    """What is wrong with the results of a record; found out once a machine. Empty: nothing."""
    plain = record.workload.mod
    reason = why_not_compared(plain, target)
    if reason:
        logger.info("a record of %s is used unchecked: %s", similarity.describe(plain), reason)
        return ""
    place = _place(record, target)
    known = _read(place)
    if known is not None:
        return known
    try:
        found = difference_from_plain(plain, scheduled, target)
    except TilewrightError as error:
        logger.info("a record of %s is used unchecked: %s", similarity.describe(plain), error)
        return ""
    _write(place, found)
    return found


def _place(record: TuningRecord, target: Target) -> Path:
    """The file for a record: a name for its content, this machine and this version."""
    machine = f"{target} {target.fingerprint} {Target('llvm').fingerprint} {__version__}"
    parts = (save_json(record.workload.mod).encode(), trace_text(record.trace), machine.encode())
    return user_cache_dir() / _FOLDER / digest(b"\0".join(parts)).hex()


def _read(place: Path) -> str | None:
    try:
        folder = place.parent.stat()
        writers = stat.S_IWGRP | stat.S_IWOTH
        # Nobody but this user could have written there.
        is_private = folder.st_uid == os.getuid() and not folder.st_mode & writers
        return place.read_text(encoding="utf-8") if is_private else None
    except (OSError, UnicodeError):
        return None


def _write(place: Path, found: str) -> None:
    """Without a place to write, the next process finds out again."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(place, found)


# What plain loops compute, or go over in memory, in about a second.
MOST_FLOP = 1e9
MOST_BYTES = 2**30
_SEED = 1


def why_not_compared(plain: IRModule, target: Target) -> str:
    """Why a program cannot be run here, or not in a second; empty if it can."""
    if target.kind.name != "llvm" or not runs_here(target):
        return f"{target} is not this machine's CPU"
    if calls_functions(plain):
        return "it calls functions, and what they do besides is not known"
    try:
        infos = args_info_of(plain)
    except TuneError as error:
        return str(error)
    size = sum(math.prod(info.shape) * DType(info.dtype).bits // 8 for info in infos)
    if flop_of(plain) > MOST_FLOP or size > MOST_BYTES:
        return "the plain program would run for more than a second"
    return ""


def calls_functions(mod: IRModule) -> bool:
    """True if some call may do more than compute a value."""
    ops = [call.op for func in mod.functions.values() for call in nodes_of(func.body, Call)]
    return any(not isinstance(op, Op) or op.effect >= CallEffect.UPDATE_STATE for op in ops)


def runs_here(target: Target) -> bool:
    """True for this machine's CPU, and for CPUs whose code it runs."""
    here = Target("llvm").cpu
    is_alike = target.cpu.triple == here.triple and target.cpu.features <= here.features
    return target.cpu.is_host or is_alike


def difference_from_plain(plain: IRModule, scheduled: IRModule, target: Target) -> str:
    """How the results of a scheduled program differ, or why there are none; empty: they do not.

    Raises what keeps the plain program itself from being compiled or run.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-check-") as folder:
        twins = with_twins(plain)
        own_build = None if twins is None else partial(build_with_twins, twins)
        reference = build_candidate(Scheduled(plain, target), folder, own_build)
        infos, arguments = specs_of(plain), ArgumentCache()
        arguments.expectation(reference, infos, _SEED)
        try:
            artifact = build_candidate(Scheduled(as_called(scheduled), target), folder)
            request = RunRequest(artifact, infos, _SEED, AdaptiveProtocol(), reference=reference)
            return wrong_result(request, arguments)
        except TilewrightError as error:
            return str(error)
