"""Cycles of tuned schedules for the accelerator VTA beside hand-written ones, on its simulator.

    python benchmarks/vta.py [--quick] [--json FILE] [--only ROW ...]

Every candidate is compared with the program on the CPU. The note says how far the tuned schedule is
from what no schedule of its operations and transfers can get below. Goal: at most 1.3.
"""

from __future__ import annotations

import logging
import tempfile

from harness import HEADER, Report, Row, finish, parse_arguments

import tilewright as tw
from tilewright import meta_schedule as ms
from tilewright.codegen.registry import find_backend
from tilewright.ir import IRModule, PrimFunc
from tilewright.schedule import Schedule
from tilewright.testing.vta_layers import RESNET18
from tilewright.testing.vta_schedules import (
    CONV_TILES,
    GEMM_TILES,
    schedule_conv2d,
    schedule_gemm,
)
from tilewright.workloads.vta import gemm

TRIALS = 16


def cases() -> dict[str, tuple[PrimFunc, Schedule]]:
    """Programs by the names of their rows, and their hand-written schedules."""
    made = {}
    for shape, tile in GEMM_TILES.items():
        program = gemm(*shape)
        made["gemm_" + "x".join(map(str, shape))] = program, schedule_gemm(program, tile)
    for name, tile in CONV_TILES.items():
        program = RESNET18[name].program
        made[f"resnet18_{name}"] = program, schedule_conv2d(program, tile)
    return made


def cost(module: IRModule) -> tuple[int, int]:
    """Cycles, and the fewest that the same operations and transfers could take."""
    artifact = tw.build(module, "vta").artifact
    assert artifact is not None
    (taken,) = find_backend("vta").resources(artifact).values()
    return taken["cycles"], taken["least_cycles"]


def tuned(program: PrimFunc, trials: int) -> IRModule:
    """The best schedule of a short search."""
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tune_tir(
            program, "vta", folder, max_trials_global=trials, num_trials_per_iter=8, seed=1
        )
        found = database.query_schedule(IRModule({"main": program}), tw.Target("vta"), "main")
        assert found is not None
        return found.mod


def main() -> None:
    options = parse_arguments(__doc__)
    logging.getLogger("tilewright").setLevel(logging.WARNING)
    report = Report("VTA")
    print(HEADER)
    for name, (program, by_hand) in cases().items():
        if options.only is not None and name not in options.only:
            continue
        cycles, least = cost(tuned(program, 4 if options.quick else TRIALS))
        note = f"{cycles / least:.2f} of the bound"
        rival, _ = cost(by_hand.mod)
        report.add(Row(name, cycles / 1e3, rival / 1e3, "by hand", "kcycles", note))
    finish(report, options)


if __name__ == "__main__":
    main()
