"""Sampling of legal candidates: our solver beside OR-tools' CP-SAT.

    python benchmarks/solver.py [--quick] [--json FILE] [--only ROW ...]

Each row is the time in ms of 1,000 legal samples of Heron's space for a matrix product; preparing
the space, once, is in the note. CP-SAT solves a model with random hints for each sample, as Heron
does; all of its samples and of ours are checked. The note also says how many values a knob takes on
average, as an entropy in bits: an even sample of the space has the highest. `enumerated_vta` lists
all solutions of a small space with both and compares them.
"""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np
from harness import HEADER, Report, Row, finish, parse_arguments

from tilewright.heron.operators import operation_of
from tilewright.heron.platforms import heron_platforms
from tilewright.heron.space import HeronSpace, space_of
from tilewright.solver.array_solver import ArraySolver
from tilewright.solver.base import SolutionSet
from tilewright.solver.cp_sat import CpSatSolver

ROWS = {
    "sampled_tensorcore_64": ("tensorcore", (64, 64, 64)),
    "sampled_tensorcore_1024": ("tensorcore", (1024, 1024, 1024)),
    "sampled_dlboost_64": ("dlboost", (64, 64, 64)),
}
SAMPLES = 20_000
CP_SAT_SAMPLES = 50


def space(platform: str, shape: tuple[int, ...]) -> HeronSpace:
    """The space of a matrix product."""
    chosen = heron_platforms.create(platform)
    return space_of(operation_of(chosen.case("gemm", shape)), chosen)


def entropy(of: HeronSpace, drawn: SolutionSet) -> float:
    """Bits of a knob, on average over the knobs."""
    found = []
    for knob in of.knobs:
        _, counts = np.unique(drawn.column(knob), return_counts=True)
        shares = counts / counts.sum()
        found.append(float(-(shares * np.log2(shares)).sum()))
    return sum(found) / len(found)


def check(of: HeronSpace, drawn: SolutionSet) -> None:
    """Every sample must be legal."""
    for values in list(drawn.assignments())[:CP_SAT_SAMPLES]:
        broken = list(of.problem.broken_by(values))
        if broken:
            raise AssertionError(f"a sample breaks {broken[0].origin}")


def sampled(name: str, quick: bool) -> Row:
    """One row: ours and, where it is installed, CP-SAT's."""
    of = space(*ROWS[name])
    start = time.perf_counter()
    solutions = ArraySolver().prepare(of.problem)
    solutions.sample(1, np.random.default_rng(0))
    prepared = time.perf_counter() - start
    times = []
    for seed in range(2 if quick else 5):
        start = time.perf_counter()
        ours = solutions.sample(SAMPLES, np.random.default_rng(seed))
        times.append(time.perf_counter() - start)
    check(of, ours)
    note = f"{len(of.problem.variables)} variables, prepared in {prepared:.1f} s, "
    note += f"{solutions.count or 0:.3g} solutions; entropy {entropy(of, ours):.2f}"
    rival = None
    if find_spec("ortools") is not None:
        start = time.perf_counter()
        theirs = CpSatSolver().prepare(of.problem).sample(CP_SAT_SAMPLES, np.random.default_rng(0))
        rival = (time.perf_counter() - start) / CP_SAT_SAMPLES * 1e6
        check(of, theirs)
        few = SolutionSet(ours.names, ours.values[:CP_SAT_SAMPLES])
        note += (
            f"; of {CP_SAT_SAMPLES} samples {entropy(of, few):.2f} and {entropy(of, theirs):.2f}"
        )
    return Row(name, min(times) / SAMPLES * 1e6, rival, "CP-SAT", "ms", note)


def enumerated() -> Row:
    """All solutions of a space by CP-SAT, and as many by ours."""
    of = space("vta", (64, 64, 64))
    start = time.perf_counter()
    listed = CpSatSolver().prepare(of.problem).every_solution()
    theirs = time.perf_counter() - start
    start = time.perf_counter()
    solutions = ArraySolver().prepare(of.problem)
    drawn = solutions.sample(40 * len(listed), np.random.default_rng(0)).values
    ours = time.perf_counter() - start
    if {tuple(row) for row in drawn.tolist()} != {tuple(row) for row in listed.values.tolist()}:
        raise AssertionError("the solvers do not agree on the solutions")
    return Row("enumerated_vta", ours * 1e3, theirs * 1e3, "CP-SAT", "ms", f"{len(listed)} of them")


def main() -> None:
    """Run the rows."""
    options = parse_arguments(__doc__ or "")
    report = Report("sampling of legal candidates")
    print(HEADER)
    for name in ROWS:
        if options.only is None or name in options.only:
            report.add(sampled(name, options.quick))
    if find_spec("ortools") is None:
        report.skip("enumerated_vta", "CP-SAT is missing: pip install 'tilewright[solver]'")
    elif options.only is None or "enumerated_vta" in options.only:
        report.add(enumerated())
    finish(report, options)


if __name__ == "__main__":
    main()
