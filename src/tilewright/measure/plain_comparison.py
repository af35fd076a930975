"""One scheduled program against the plain one it came from, once, in this process.

The tuner checks its candidates in workers of its own. This is for a schedule that somebody else
found, before it is used here for the first time: it will run in this process anyway.
"""

from __future__ import annotations

import math
import tempfile
from functools import partial

from tilewright.errors import TilewrightError, TuneError
from tilewright.ir import Call, DType, IRModule, Node, post_order_visit
from tilewright.ir.op import CallEffect, Op
from tilewright.measure.argument_cache import ArgumentCache
from tilewright.measure.build_task import Scheduled, as_called, build_candidate, build_with_twins
from tilewright.measure.evaluator import AdaptiveProtocol
from tilewright.measure.local_builder import with_twins
from tilewright.measure.row_offsets import specs_of
from tilewright.measure.run_task import RunRequest, wrong_result
from tilewright.records import args_info_of
from tilewright.schedule.analysis import flop_of
from tilewright.target import Target

# Plain loops take about a second for so many operations, or to go over so much memory.
MOST_FLOP = 1e9
MOST_BYTES = 2**30
_SEED = 1


def why_not_compared(plain: IRModule, target: Target) -> str:
    """Why a program cannot be run here, or not in a second; empty if it can."""
    if target.kind.name != "llvm" or not _runs_here(target):
        return f"{target} is not this machine's CPU"
    if _calls_functions(plain):
        return "it calls functions, and what they do besides is not known"
    try:
        infos = args_info_of(plain)
    except TuneError as error:
        return str(error)
    size = sum(math.prod(info.shape) * DType(info.dtype).bits // 8 for info in infos)
    if flop_of(plain) > MOST_FLOP or size > MOST_BYTES:
        return "the plain program would run for more than a second"
    return ""


def _calls_functions(mod: IRModule) -> bool:
    """Is there a call that may do more than compute a value?"""
    nodes: list[Node] = []
    for func in mod.functions.values():
        post_order_visit(func.body, nodes.append)
    ops = (node.op for node in nodes if isinstance(node, Call))
    return any(not isinstance(op, Op) or op.effect >= CallEffect.UPDATE_STATE for op in ops)


def _runs_here(target: Target) -> bool:
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
