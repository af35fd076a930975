"""Exactness of the algebra of a space, sketch by sketch, measured against replays.

Candidates are drawn at random, no two the same, half of them legal by the algebra's own verdict
where there are enough; of a small sketch all are taken. Each is replayed: loops, threads,
footprints, traffic (as the prior sees it) and verdicts are compared. Where readers of programs only
know a bound of what is touched, all iterations are enumerated.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright import te
from tilewright.algebra.decisions import Columns, rows_in
from tilewright.algebra.evaluation import ArrayProgram
from tilewright.algebra.legality import Verdicts, verdicts_of
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel, StructureCase
from tilewright.algebra.population import every_vector, random_population, vector_at
from tilewright.cost_model.prior import Machine
from tilewright.ir import PrimFunc
from tilewright.nest.kernels import Kernel, kernels_of, tag_of
from tilewright.nest.loops import known_extent
from tilewright.space.gpu.shared_memory import shared_memory_bytes
from tilewright.target import Target
from tilewright.testing.enumerated_boxes import EnumeratedNest, enumerated_nests
from tilewright.testing.int8_workloads import create_int8_workload
from tilewright.testing.space_algebra import (
    Difference,
    ReplayedSketch,
    differences,
    prior_differences,
    sketches_of,
)
from tilewright.testing.te_workload import CONFIGS, create_te_workload, matmul

_DRAWN_FOR_ONE = (1.25, 5, 40, 1000)  # random vectors, of which enough may be legal
_SMALL = 4  # times as many vectors as are compared: such a sketch is drawn from all of them


@dataclass(frozen=True)
class ExactnessTarget:
    """A target, and the spaces and workloads that are compared on it."""

    target: str
    spaces: tuple[str, ...]
    workloads: tuple[str, ...]


_TVM, _OWN = "post-order-apply", "tilewright"
_FLOAT = tuple(CONFIGS)
_BYTES = ("GMM_s8s8", "GMM_u8s8", "C2D_u8s8")
_HALF = ("GMM_f16",)
EXACTNESS_TARGETS = {
    "cpu": ExactnessTarget("llvm -mcpu=cascadelake -num-cores 4", (_OWN, _TVM), _FLOAT),
    "vnni": ExactnessTarget("llvm -mcpu=cascadelake -num-cores 4", (_OWN, _TVM), _BYTES),
    "amx": ExactnessTarget("llvm -mcpu=sapphirerapids -num-cores 4", (_OWN, _TVM), _BYTES),
    "cuda": ExactnessTarget("nvidia/geforce-rtx-3080", (_TVM, _OWN), _FLOAT),
    "tensorcore": ExactnessTarget("nvidia/geforce-rtx-3080", (_TVM, _OWN), (*_HALF, *_BYTES)),
    "hopper": ExactnessTarget("nvidia/nvidia-h200", (_OWN,), (*_FLOAT, *_HALF, *_BYTES)),
}


def half_gemm() -> PrimFunc:
    """A product of matrices of half precision, for tensor cores."""
    return te.create_prim_func(matmul(256, 256, 256, "float16", "float32"))


def _bytes_gemm(form: str) -> Callable[[], PrimFunc]:
    return lambda: create_int8_workload("int8_gemm", M=128, N=128, K=128, form=form)


EXACTNESS_WORKLOADS: Mapping[str, Callable[[], PrimFunc]] = {
    **{name: functools.partial(create_te_workload, name, 0) for name in CONFIGS},
    "GMM_u8s8": _bytes_gemm("u8s8"),
    "GMM_s8s8": _bytes_gemm("s8s8"),
    "C2D_u8s8": lambda: create_int8_workload(
        "int8_conv", N=1, H=14, W=14, CI=64, CO=64, kernel_size=3, padding=1
    ),
    "GMM_f16": half_gemm,
}


@dataclass
class SketchExactness:
    """What was compared of one sketch; counts are of candidates."""

    reasons: Counter[str] = field(default_factory=Counter)  # why vectors are not covered
    vectors: int = 0
    legal: int = 0  # by replay
    has_all: bool = False  # no other vectors are there
    differing: Counter[str] = field(default_factory=Counter)  # candidates by quantity
    illegal_accepted: int = 0
    legal_refused: int = 0
    examples: list[str] = field(default_factory=list)  # of differences

    @property
    def is_covered(self) -> bool:
        return not self.reasons

    @property
    def is_exact(self) -> bool:
        return not self.differing and not self.illegal_accepted and not self.legal_refused


def exactness_of(
    func: PrimFunc, target: Target, space: str, count: int, only: int | None = None
) -> Iterator[SketchExactness]:
    """Compare `count` candidates of each sketch of a function, or `only` of one of them."""
    for number, sketch in enumerate(compared_sketches(func, target, space)):
        if only in (None, number):
            yield sketch_exactness(sketch, target, count)


def compared_sketches(func: PrimFunc, target: Target, space: str) -> list[ReplayedSketch]:
    """The sketches of a function, without candidates."""
    mod, sketches, postprocs = sketches_of(func, target, space)
    return [ReplayedSketch(mod, sketch, postprocs, [], []) for sketch in sketches]


def sketch_exactness(sketch: ReplayedSketch, target: Target, count: int) -> SketchExactness:
    """Compare `count` candidates of a sketch."""
    try:
        return _compared(sketch, sketch.model(), target, count)
    except NotInterpreted as why:
        return SketchExactness(Counter({str(why): count}))


def _drawn(model: SpaceModel, count: int) -> tuple[Columns, Verdicts]:
    """Different candidates: all, or random ones until half of what is needed is legal."""
    random = np.random.default_rng(0)
    every = every_vector(model.decisions, _SMALL * count)
    if every is not None:
        order = random.permutation(rows_in(every))
        columns = {name: column[order] for name, column in every.items()}
        return columns, verdicts_of(model, columns)
    for more in _DRAWN_FOR_ONE:
        columns = _different(random_population(model.decisions, int(more * count), random))
        verdicts = verdicts_of(model, columns)
        if 2 * np.count_nonzero(verdicts.legal) >= count:
            break
    return columns, verdicts


def _different(columns: Columns) -> Columns:
    """Each row once, in the order in which they come first."""
    _, first = np.unique(np.stack(list(columns.values())), axis=1, return_index=True)
    rows = np.sort(first)
    return {name: column[rows] for name, column in columns.items()}


def _compared(
    empty: ReplayedSketch, model: SpaceModel, target: Target, count: int
) -> SketchExactness:
    columns, verdicts = _drawn(model, count)
    found = SketchExactness(Counter(verdicts.to_replay.values()))
    rows = _chosen(verdicts, count)
    vectors = [vector_at(model.decisions, columns, row) for row in rows]
    replayed = empty.asked_for(vectors)
    accepted = {id(vector) for vector in replayed.vectors}
    is_legal = {row: id(vector) in accepted for row, vector in zip(rows, vectors, strict=True)}
    found.vectors, found.legal = len(rows), len(replayed.vectors)
    every = every_vector(model.decisions, count)
    found.has_all = every is not None and rows_in(every) == len(rows)
    found.illegal_accepted = sum(bool(verdicts.legal[row]) and not is_legal[row] for row in rows)
    found.legal_refused = sum(is_legal[row] and not verdicts.legal[row] for row in rows)
    _compare_nests(found, replayed, model, target)
    return found


def _chosen(verdicts: Verdicts, count: int) -> list[int]:
    """At most `count` rows that are covered, half of them illegal if there are enough of those."""
    covered = np.ones(len(verdicts.legal), np.bool_)
    covered[list(verdicts.to_replay)] = False
    legal = np.flatnonzero(verdicts.legal & covered)
    other = np.flatnonzero(~verdicts.legal & covered)
    refused = other[: count // 2]
    return [int(row) for row in (*legal[: count - len(refused)], *refused)]


def _compare_nests(
    found: SketchExactness, replayed: ReplayedSketch, model: SpaceModel, target: Target
) -> None:
    oracle = _Enumeration(replayed.functions)
    differing = [
        each
        for each in (*differences(replayed, model), *resource_differences(replayed, model))
        # Nobody asks for these on GPUs; of loops that predicates stop, readers know less.
        if not (each.quantity in ("strides", "dependence") and not target.is_cpu)
        and not oracle.agrees(each)
    ]
    found.examples = [str(each) for each in differing[:3]]
    rows = {(each.quantity, each.row) for each in differing}
    found.differing = Counter(quantity for quantity, _ in rows)
    if target.is_cpu and replayed.vectors:
        traffic = prior_differences(replayed, model, Machine.of(target))
        found.differing.update({"traffic": len(traffic)} if traffic else {})


def resource_differences(replayed: ReplayedSketch, model: SpaceModel) -> Iterator[Difference]:
    """Threads and bytes of shared memory of kernels that the algebra says otherwise."""
    columns = model.columns(replayed.vectors)
    for case, rows in model.cases(columns):
        assert isinstance(case, StructureCase)
        checks = case.interpretation.checks
        program = ArrayProgram([check.quantity for check in checks])
        made = program({name: columns[name][rows] for name in program.inputs})
        for place, row in enumerate(map(int, rows)):
            numbers = [int(np.broadcast_to(each, len(rows))[place]) for each in made]
            kernels = kernels_of(replayed.functions[row]) if checks else []
            for key, count in _RESOURCES.items():
                mine = [n for n, c in zip(numbers, checks, strict=True) if c.origin.startswith(key)]
                theirs = [count(kernel) for kernel in kernels]
                if mine != theirs:
                    yield Difference(row, key, "kernel", f"has {key} {mine}, not {theirs}")


def _threads(kernel: Kernel) -> int:
    loops = {loop for leaf in kernel.leaves for loop in leaf.loops}
    extents = {tag_of(loop): known_extent(loop) or 0 for loop in loops}
    return math.prod(n for tag, n in extents.items() if tag.startswith("threadIdx"))


_RESOURCES: Mapping[str, Callable[[Kernel], int]] = {
    "max_threads": _threads,
    "max_shared_memory": shared_memory_bytes,
}


class _Enumeration:
    """Bytes that candidates touch, by running all their iterations."""

    def __init__(self, functions: Sequence[PrimFunc]) -> None:
        self._functions = functions
        self._known: dict[tuple[int, str], list[EnumeratedNest]] = {}

    def agrees(self, difference: Difference) -> bool:
        """True where it says what the algebra says, and the reader knows only a bound."""
        if difference.quantity != "footprints":
            return False
        key = difference.row, difference.store_to
        if key not in self._known:
            program = self._functions[difference.row]
            self._known[key] = enumerated_nests(program, store_to=difference.store_to)
        below = list(difference.bytes_below)
        return any(below in each.bytes_below for each in self._known[key])


def table(rows: Sequence[tuple[str, str, str, list[SketchExactness]]]) -> str:
    """The results of workloads (name, target, space, sketches) as a table, with what is left."""
    lines = [
        "| workload | target | space | covered | vectors | legal | "
        + " | ".join(_SEEN_IN)
        + " | illegal accepted | legal refused |",
        "|---|---|---|---|---|---|" + "---|" * len(_SEEN_IN) + "---|---|",
    ]
    lines += [_line(*row) for row in rows]
    for name, target, space, sketches in rows:
        for number, sketch in enumerate(sketches):
            for text in (*sketch.reasons, *sketch.examples):
                lines.append(f"- {name} {target} {space}, sketch {number}: {text}")
    return "\n".join(lines)


def _line(name: str, target: str, space: str, sketches: list[SketchExactness]) -> str:
    vectors = sum(each.vectors for each in sketches)
    legal = sum(each.legal for each in sketches)
    covered = sum(each.is_covered for each in sketches)
    cells = [
        name, target, space,
        f"{covered}/{len(sketches)}",
        str(vectors),
        f"{legal / max(1, vectors):.0%}",
        *[_agreeing(sketches, each) for each in _SEEN_IN],
        str(sum(each.illegal_accepted for each in sketches)),
        str(sum(each.legal_refused for each in sketches)),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


_SEEN_IN = {
    "loops": ("nests", "loops", "dependence", "numbers"),
    "footprints": ("footprints", "strides"),
    "traffic": ("traffic",),
    "threads": ("max_threads",),
    "shared memory": ("max_shared_memory",),
}


def _agreeing(sketches: Sequence[SketchExactness], column: str) -> str:
    """How many of the legal candidates agree."""
    legal = sum(each.legal for each in sketches)
    wrong = sum(each.differing[name] for each in sketches for name in _SEEN_IN[column])
    return f"{legal - wrong}/{legal}"
