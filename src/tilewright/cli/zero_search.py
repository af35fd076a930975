"""`tilewright tune --effort none`: a schedule by calculation, in a fraction of a second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from tilewright.cli.console import print_json
from tilewright.cli.programs import Program
from tilewright.database.similarity import describe
from tilewright.measure.side_by_side import measure_alone
from tilewright.report.packing import packed_before, packing_note
from tilewright.report.roofline import MeasuredPeaks, flop_of, roofline_of
from tilewright.report.units import gflops, percent, seconds
from tilewright.target import Target
from tilewright.tune.fallback import default_schedule


def without_search(
    programs: Sequence[Program], target: Target, console: Console, *, as_json: bool
) -> int:
    """Choose, compile and time a schedule for each program; nothing is kept."""
    for program in programs:
        start = time.perf_counter()
        sch = default_schedule(program.func, target)
        chosen = time.perf_counter() - start
        secs = measure_alone(sch.mod, target)
        limit = roofline_of(program.mod, target, MeasuredPeaks(target))
        facts: dict[str, Any] = {
            "event": "result",
            "task": program.name,
            "shape": describe(program.mod),
            "best_secs": secs,
            "gflops": flop_of(program.mod) / secs / 1e9,
            "share_of_roofline": None if limit is None else limit.share(secs),
            "chosen_in_secs": chosen,
            "packed": packed_before(sch.mod),
            "script": sch.mod.script(),
        }
        if as_json:
            print_json(facts)
            continue
        speed = f"{gflops(flop_of(program.mod), secs)} GFLOPS"
        share = f"{percent(facts['share_of_roofline'])} of roofline"
        note = packing_note(facts["packed"])
        console.print(
            f"{program.name} {facts['shape']}: {seconds(secs)}, {speed}, {share}, "
            f"calculated in {seconds(chosen)} without a search{note and f'; {note}'}",
            markup=False,
        )
    return 0
