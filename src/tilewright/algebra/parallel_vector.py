"""`RewriteParallelVectorizeUnroll` on a tree of loops: marks instead of fused loops.

How many outermost loops run in parallel and how many innermost ones make a vector depends on their
extents; marks on loops say it for each decision vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.algebra.choices import Choices
from tilewright.algebra.expr import (
    Value,
    both,
    either,
    equal,
    floor_divide,
    less_equal,
    maximum,
    multiply,
    negate,
    remainder,
    where,
)
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    NotInterpreted,
    StageNode,
    loops_of,
    types_of,
)
from tilewright.algebra.steps import fuse, split
from tilewright.arith.affine import affine_of
from tilewright.ir.annotation_keys import (
    AUTO_UNROLL_MAX_STEP,
    PARALLEL,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
    VECTORIZE,
)

_OFF = -1


@dataclass(frozen=True)
class _Wishes:
    parallel: int
    vectorize: int
    unroll: Value


def rewrite_parallel_vectorize_unroll(tree: LoopTree, choices: Choices) -> None:
    """Do for all stages what the root block asks for."""
    asked = [tree.annotations.pop(key, _OFF) for key in (PARALLEL, VECTORIZE)]
    unroll = [tree.annotations.pop(key, None) for key in (UNROLL_EXPLICIT, UNROLL_IMPLICIT)]
    steps = [each for each in unroll if each is not None]
    if not steps and asked == [_OFF, _OFF]:
        return
    if not all(isinstance(each, int) for each in asked):
        raise NotInterpreted("limits of parallel and vector loops depend on decisions")
    most: Value = _OFF
    for each in steps:
        most = maximum(most, each)
    wishes = _Wishes(asked[0], asked[1], most)
    for stage in tree.stages():
        if loops_of(stage):
            _rewrite(tree, stage, wishes, choices)


def _rewrite(tree: LoopTree, stage: StageNode, wishes: _Wishes, choices: Choices) -> None:
    if wishes.parallel == wishes.vectorize == _OFF:
        _unroll(stage, loops_of(stage)[0], wishes)
        return
    nest = _StageLoops(tree, stage)
    parallel, product = nest.parallel(wishes.parallel)
    vector, takes_all = nest.vector(wishes.vectorize, product)
    if choices.decide((stage.name, "takes all"), takes_all):
        outer, inner = split(tree, fuse(tree, nest.loops), [None, wishes.vectorize])
        outer.in_parallel = inner.in_vector = 1
        first = outer
    else:
        first = nest.loops[0]
        before = first.in_parallel
        for loop, runs, lane in zip(nest.loops, parallel, vector, strict=True):
            loop.in_parallel = where(before, loop.in_parallel, both(runs, negate(lane)))
            loop.in_vector = lane
    _unroll(stage, first, wishes)


def _unroll(stage: StageNode, first: LoopNode, wishes: _Wishes) -> None:
    if stage.is_reduction:
        first.annotations[AUTO_UNROLL_MAX_STEP] = maximum(
            first.annotations.get(AUTO_UNROLL_MAX_STEP, 0), wishes.unroll
        )


class _StageLoops:
    """The loops around a stage, as the plan asks for them."""

    def __init__(self, tree: LoopTree, stage: StageNode) -> None:
        self.stage = stage
        self.loops = loops_of(stage)
        if any(loop.is_fused for loop in self.loops):
            raise NotInterpreted(f"loops around block {stage.name!r} were fused")
        self._spatial = [
            types_of(loop, tree.stages_below(loop)) <= {ir.IterType.DATA_PAR} for loop in self.loops
        ]
        self._free = [_is_free(loop) for loop in self.loops]

    def _fits(self, position: int) -> Value:
        return self._free[position] if self._spatial[position] else 0

    def _has_one_child(self, position: int) -> bool:
        return len(self.loops[position].body) == 1

    def parallel(self, most: int) -> tuple[list[Value], Value]:
        """1 for the outermost loops that it takes to have enough to do, and their product."""
        if most == _OFF:
            return [0] * len(self.loops), 1
        taken: list[Value] = []
        alive: Value = 1
        product: Value = 1
        for position, loop in enumerate(self.loops):
            takes = both(alive, self._fits(position))
            taken.append(takes)
            product = multiply(product, where(takes, loop.extent, 1))
            alive = 0
            if self._has_one_child(position):
                alive = both(takes, less_equal(product, most))
        enough = less_equal(2, product)
        return [both(takes, enough) for takes in taken], product

    def vector(self, lanes: int, in_parallel: Value) -> tuple[list[Value], Value]:
        """1 for the innermost loops that fill a vector; then, whether a vector takes all loops."""
        if lanes == _OFF:
            return [0] * len(self.loops), 0
        contiguous = self._contiguous()
        taken: list[Value] = []
        alive: Value = 1
        product: Value = 1
        for position in range(len(self.loops) - 1, -1, -1):
            fits = self._fits(position) if self._has_one_child(position) else 0
            product = multiply(product, self.loops[position].extent)
            alive = both(both(alive, fits), less_equal(product, lanes))
            alive = both(alive, contiguous[position])
            taken.insert(0, alive)
        return self._useful(taken), self._takes_all(contiguous, lanes, in_parallel)

    def _useful(self, taken: list[Value]) -> list[Value]:
        """Nothing, where the loops together run once."""
        product: Value = 1
        for loop, takes in zip(self.loops, taken, strict=True):
            product = multiply(product, where(takes, loop.extent, 1))
        useful = less_equal(2, product)
        return [both(takes, useful) for takes in taken]

    def _takes_all(self, contiguous: list[Value], lanes: int, in_parallel: Value) -> Value:
        """1 where all loops run in parallel and are contiguous."""
        every: Value = less_equal(2, in_parallel)
        needed: Value = 0
        alive: Value = 1
        product: Value = 1
        for position in range(len(self.loops) - 1, -1, -1):
            fits = self._fits(position) if self._has_one_child(position) else 0
            every = both(every, both(fits, contiguous[position]))
            product = where(alive, multiply(product, self.loops[position].extent), product)
            needed = either(needed, both(alive, less_equal(2, product)))
            alive = both(both(alive, fits), less_equal(product, lanes))
        return both(every, needed)

    def _contiguous(self) -> list[Value]:
        """1 for the innermost loops along which all accesses walk as one loop would."""
        found: list[Value] = [1] * len(self.loops)
        block = self.stage.block
        reads = block.reads
        if self.stage.does == "update":
            raise NotInterpreted(f"block {self.stage.name!r} is taken apart already")
        for region in (*reads, *block.writes):
            strides = _Strides(self.stage, region)
            expected: Value = 0
            alive: Value = 1
            for position in range(len(self.loops) - 1, -1, -1):
                loop = self.loops[position]
                stride = strides.of(loop.digits[0])
                is_first = position == len(self.loops) - 1
                starts = 1 if is_first else equal(stride, 1)
                fits = where(less_equal(expected, 0), starts, equal(stride, expected))
                still = equal(stride, 0)
                alive = both(alive, either(still, fits))
                expected = where(still, expected, multiply(stride, loop.extent))
                found[position] = both(found[position], alive)
        return found


def _is_free(loop: LoopNode) -> Value:
    """1 where nobody has written anything on a loop."""
    others = [key for key in loop.annotations if key != AUTO_UNROLL_MAX_STEP]
    if others or loop.tag:
        return 0
    return less_equal(loop.annotations.get(AUTO_UNROLL_MAX_STEP, 0), 0)


class _Strides:
    """How far apart in memory the iterations of a loop are, in one region."""

    def __init__(self, stage: StageNode, region: ir.BufferRegion) -> None:
        iterators = dict(zip((v.var for v in stage.block.iter_vars), stage.bindings, strict=True))
        self._rows = [_coefficients(axis.min, iterators) for axis in region.region]
        shape = region.buffer.shape
        self._shape = [each.value if isinstance(each, ir.IntImm) else 0 for each in shape]

    def of(self, digit: Digit) -> Value:
        """The stride of a digit in the last axis that it moves; 0 if it moves none."""
        found: Value = 0
        scale = 1
        for row, extent in zip(reversed(self._rows), reversed(self._shape), strict=True):
            own = multiply(row.get(digit, 0), scale)
            found = where(equal(found, 0), own, found)
            scale *= extent
        return found


def _coefficients(
    index: ir.PrimExpr, iterators: dict[ir.Var, dict[Digit, Value]]
) -> dict[Digit, Value]:
    """What digits add to an index; inside of quotients only multiples of the divisor count."""
    found: dict[Digit, Value] = {}
    for term, scale in affine_of(index).terms.items():
        if isinstance(term, ir.Var):
            part = iterators.get(term, {})
        elif isinstance(term, ir.FloorDiv) and isinstance(term.b, ir.IntImm):
            divisor = term.b.value
            part = {
                digit: where(equal(remainder(c, divisor), 0), floor_divide(c, divisor), 0)
                for digit, c in _coefficients(term.a, iterators).items()
            }
        else:
            part = {}
        for digit, coefficient in part.items():
            found[digit] = found.get(digit, 0) + multiply(coefficient, scale)
    return found
