"""`Template`: stages, loops, steps and constraints of a schedule while rules work on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.algebra.constraints import (
    Constraint,
    ConstraintProblem,
    Domain,
    Eq,
    IntegerVariable,
    Prod,
    SelectFrom,
    Sum,
    Term,
)
from tilewright.errors import TuneError
from tilewright.heron import steps
from tilewright.heron.names import KINDS, Key, loop_key
from tilewright.heron.steps import ScheduleStep

_LARGEST_TILE = 4096  # a cut into more parts that are larger, too, is no candidate
_LARGEST_FUSED = 1_000_000


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, rising."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


@dataclass(frozen=True)
class StageWindow:
    """Neighbours of the consumer read windows `step` apart, each as long as `reach`."""

    step: int
    reach: int


@dataclass
class TensorStage:
    """A tensor that is computed or copied: its iterators, and its loops so far."""

    name: str
    spatial: tuple[str, ...]
    reduced: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    extents: dict[str, int] = field(default_factory=dict)  # of iterators, as far as they are known
    follows: dict[str, str] = field(default_factory=dict)  # iterators of the consumer
    is_input: bool = False
    is_injective: bool = False
    has_branch: bool = False  # reads only where a condition holds
    lanes: tuple[str, ...] = ()  # iterators that an instruction takes as a whole
    windows: dict[str, StageWindow] = field(default_factory=dict)  # of iterators that slide
    run: int = 0  # how many neighbours are neighbours in memory, too; 0: whole rows
    scope: str = "global"
    loops: list[str] = field(default_factory=list)
    tiles: list[tuple[list[str], str]] = field(default_factory=list)
    reduction_tiles: list[tuple[list[str], str]] = field(default_factory=list)
    positions: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)  # what loops became
    done: set[str] = field(default_factory=set)  # rules that were applied

    @property
    def axes(self) -> tuple[str, ...]:
        """All iterators."""
        return (*self.spatial, *self.reduced)

    @property
    def innermost(self) -> list[str]:
        """The loops that are not cut yet."""
        return [axis for axis in self.loops if axis in self.axes or axis.endswith(".inner")]


@dataclass
class Template:
    """What rules have built so far; their methods are the primitives."""

    stages: dict[str, TensorStage]
    order: list[str]  # the output first
    in_dtype: str
    out_dtype: str
    variables: dict[str, IntegerVariable] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    steps: list[ScheduleStep] = field(default_factory=list)
    candidates: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attached: dict[str, tuple[str, Term]] = field(default_factory=dict)  # consumer and position
    # Iterators of a consumer that warps share: all of it, and a warp's part.
    shared_by_warps: dict[tuple[str, str], tuple[Term, Term]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    brothers: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    defaults: dict[str, int] = field(default_factory=dict)  # by short name, where not the least
    facts: dict[str, object] = field(default_factory=dict)  # what rules tell later ones

    # --- variables ------------------------------------------------------------------------------

    def declare(self, key: Key, domain: Domain) -> str:
        """The name of a variable, new or not."""
        name = key.full
        if name not in self.variables:
            self.variables[name] = IntegerVariable(name, domain, KINDS[key.prefix])
            self.keys[name] = key
        return name

    def knob(
        self,
        stage: str | None,
        parameter: str,
        domain: Domain,
        axis: str | None = None,
        candidates: Sequence[int] | None = None,
    ) -> str:
        """A tunable parameter."""
        key = Key("P", stage, axis, parameter)
        if candidates is not None:
            self.candidates[key.short] = tuple(candidates)
        return self.declare(key, domain)

    def require(self, *constraints: Constraint) -> None:
        """Demand something."""
        self.constraints.extend(constraints)

    def loop(self, stage: str, axis: str) -> str:
        """The extent of a loop."""
        return self.declare(loop_key(stage, axis), self._range(stage, axis))

    def _range(self, stage: str, axis: str) -> range:
        if ".fused" in axis:
            whole = math.prod(self.stages[stage].extents.values())
            return range(1, max(_LARGEST_FUSED, whole) + 1)
        root = self.root(stage, axis)
        return range(1, self.stages[stage].extents[root] + 1)

    def root(self, stage: str, axis: str) -> str:
        """The iterator that a loop comes from."""
        found = [own for own in self.stages[stage].axes if f"{axis}.".startswith(f"{own}.")]
        return max(found, key=len)

    def begin(self, name: str) -> None:
        """The loops of a stage, one an iterator, all extents known."""
        stage = self.stages[name]
        stage.loops = list(stage.axes)
        for axis in stage.axes:
            self.lengths[loop_key(name, axis).full] = stage.extents[axis]

    def whole(self, name: str, axis: str) -> str:
        """The extent of an iterator that no other stage decides."""
        key = loop_key(name, axis)
        is_new = key.full not in self.variables
        variable = self.loop(name, axis)
        is_own = name not in self.attached or axis in self.stages[name].reduced
        if is_new and is_own:
            extent = self.stages[name].extents[axis]
            self.require(Eq(f"extent of {axis} in {name}", variable, extent))
        return variable

    def product(self, stage: str, what: str, factors: Sequence[Term], origin: str) -> Term:
        """A product as a term: a new variable where there is more than one factor."""
        if len(factors) < 2:
            return factors[0] if factors else 1
        name = self.declare(Key("V", stage, None, what), range(1, _LARGEST_FUSED * 1000))
        self.require(Prod(origin, name, tuple(factors)))
        return name

    # --- loops ----------------------------------------------------------------------------------

    def split(
        self, name: str, axis: str, parts: Term, by_factor: bool = False, origin: str = ""
    ) -> None:
        """Cut a loop in two, `parts` times the rest; `origin`: the limit that wants it."""
        stage = self.stages[name]
        whole = self.whole(name, axis) if axis in stage.axes else self.loop(name, axis)
        outer, inner = f"{axis}.outer", f"{axis}.inner"
        pair = self.loop(name, outer), self.loop(name, inner)
        origin = origin or f"split of {axis} in {name}"
        self.require(Prod(origin, whole, pair), Eq(origin, pair[1 if by_factor else 0], parts))
        self.steps.append(steps.SplitStep(name, axis, parts, by_factor))
        for one, other in (pair, pair[::-1]):
            self.parents[one] = [whole]
            self.brothers[one] = other
        place = stage.loops.index(axis)
        stage.loops[place : place + 1] = [outer, inner]

    def tile(
        self,
        name: str,
        axes: Sequence[str],
        parts: Callable[[str], Term],
        tag: str = "None",
    ) -> list[str]:
        """Cut loops; the outer ones come before all inner ones. Returns the outer ones."""
        stage = self.stages[name]
        for axis in axes:
            self.split(name, axis, parts(axis))
        outers = [f"{axis}.outer" for axis in axes]
        self.reorder(name, [*outers, *(f"{axis}.inner" for axis in axes)])
        for found, where in ((stage.spatial, stage.tiles), (stage.reduced, stage.reduction_tiles)):
            level = [outer for outer in outers if self.root(name, outer) in found]
            if level:
                where.append((level, tag))
        return outers

    def reorder(self, name: str, axes: Sequence[str]) -> None:
        """Loops in a new order, in the places that they have."""
        stage = self.stages[name]
        places = sorted(stage.loops.index(axis) for axis in axes)
        for place, axis in zip(places, axes, strict=True):
            stage.loops[place] = axis
        self.steps.append(steps.ReorderStep(name, tuple(axes)))

    def fuse(self, name: str, axes: Sequence[str]) -> str:
        """Make neighbouring loops one."""
        stage = self.stages[name]
        fused = ".".join(axes) + ".fused"
        parts = [self.loop(name, axis) for axis in axes]
        whole = self.loop(name, fused)
        self.require(Prod(f"fuse of {', '.join(axes)} in {name}", whole, tuple(parts)))
        self.parents[whole] = parts
        place = stage.loops.index(axes[0])
        stage.loops[place : place + len(axes)] = [fused]
        self.steps.append(steps.FuseStep(name, tuple(axes), fused))
        return fused

    def mark(self, step: ScheduleStep, axis: str, tag: str) -> None:
        """A step that says what a loop becomes."""
        self.stages[step.stage].tags[axis] = tag
        self.steps.append(step)

    def heading(self, stage: str, words: str) -> None:
        """A comment in the script."""
        self.steps.append(steps.Heading(stage, words))

    # --- stages inside others -------------------------------------------------------------------

    def compute_at(self, name: str) -> None:
        """Attach a stage to its consumer: each extent follows from the chosen position."""
        consumer, position = self.attached[name]
        stage, positions = self.stages[name], self.stages[consumer].positions
        if not positions:
            raise TuneError(f"{consumer} has no loop that {name} could be computed in")
        for axis in stage.spatial:
            own = self.loop(name, axis)
            places = range(len(positions))
            choices = [self._needed(stage, consumer, axis, place) for place in places]
            origin = f"{name} computed inside {consumer}: extent of {axis}"
            self._select(own, position, choices, origin)
        step = steps.ComputeAtStep(name, consumer, position, tuple(positions), stage.axes)
        self.steps.append(step)
        stage.loops = list(stage.axes)

    def _needed(self, stage: TensorStage, consumer: str, axis: str, place: int) -> Term:
        """How much of an iterator the loops inside a position need.

        What all warps of a block share reaches from the first element of the first warp's part to
        the last one of the last warp's.
        """
        follows = stage.follows[axis]
        inside = self.inside(consumer, follows, place)
        if axis in stage.windows:
            return self.window(stage, axis, inside, place)
        whole_and_part = self.shared_by_warps.get((consumer, follows))
        if stage.scope != "shared" or whole_and_part is None:
            return inside
        whole, part = whole_and_part
        origin = f"{stage.name} serves all warps of a block"
        domain = range(1, 2 * stage.extents[axis] + 1)
        both = self.declare(Key("V", stage.name, axis, f"both{place}"), domain)
        reach = self.declare(
            Key("V", stage.name, axis, f"reach{place}"), range(1, stage.extents[axis] + 1)
        )
        self.require(Sum(origin, both, (inside, whole)), Sum(origin, both, (reach, part)))
        return reach

    def window(self, stage: TensorStage, axis: str, inside: Term, place: int = 0) -> Term:
        """How far the windows of neighbours reach together: (inside - 1) * step + reach."""
        window, most = stage.windows[axis], stage.extents[axis]
        known = Key("V", stage.name, axis, f"reach{place}").full
        if known in self.variables:
            return known
        origin = f"windows of {stage.name} along {axis}"
        both, reach = (
            self.declare(Key("V", stage.name, axis, f"{what}{place}"), range(1, largest))
            for what, largest in (("both", 2 * most + window.step), ("reach", most + 1))
        )
        scaled = self.declare(Key("V", stage.name, axis, f"scaled{place}"), range(1, 2 * most + 1))
        self.require(
            Prod(origin, scaled, (inside, window.step)),
            Sum(origin, both, (scaled, window.reach)),
            Sum(origin, both, (reach, window.step)),
        )
        return reach

    def _select(self, own: str, position: Term, choices: Sequence[Term], origin: str) -> None:
        if isinstance(position, int):
            self.require(Eq(origin, own, choices[position]))
            return
        self.selectors(position, len(choices))
        self.require(SelectFrom(origin, own, position, tuple(choices)))

    def selectors(self, index: str, count: int) -> None:
        """Variables that are 1 where the index has their number."""
        key = self.keys[index]
        if Key("O", key.stage, key.axis, f"{key.parameter}_select0").full in self.variables:
            return
        names = []
        for place in range(count):
            helper = Key("O", key.stage, key.axis, f"{key.parameter}_select{place}")
            names.append(self.declare(helper, range(2)))
            row = tuple(int(other == place) for other in range(count))
            self.require(SelectFrom(f"positions of {key.short}", names[-1], index, row))
        self.require(Sum(f"positions of {key.short}", 1, tuple(names)))

    def inside(self, name: str, axis: str, place: int) -> Term:
        """How far an iterator of a stage runs inside the loop at a position."""
        stage = self.stages[name]
        inner = set(stage.loops[stage.loops.index(stage.positions[place]) + 1 :])
        nodes = self._nodes_inside(name, axis, inner)
        what = f"{axis}_inside{place}"
        return self.product(name, what, [self.loop(name, node) for node in nodes], what)

    def _nodes_inside(self, name: str, node: str, inner: set[str]) -> list[str]:
        """The largest loops, split or not, that lie inside as a whole."""
        halves = [f"{node}.outer", f"{node}.inner"]
        if loop_key(name, halves[0]).full not in self.variables:
            fused = [
                loop for loop in inner if loop.endswith(".fused") and node in fused_parts(loop)
            ]
            return [node] if node in inner or fused else []
        found = [part for half in halves for part in self._nodes_inside(name, half, inner)]
        return [node] if found == halves else found

    # --- the end --------------------------------------------------------------------------------

    def problem(self) -> ConstraintProblem:
        """The constraint problem."""
        return ConstraintProblem(tuple(self.variables.values()), tuple(self.constraints))

    def tile_knob(self, stage: str, parameter: str) -> Callable[[str], Term]:
        """For each loop a parameter whose candidates are the divisors of the iterator's extent."""

        def parts(axis: str) -> str:
            extent = self.stages[stage].extents[self.root(stage, axis)]
            values = tuple(d for d in divisors(extent) if min(d, extent // d) <= _LARGEST_TILE)
            listed = self.candidates.get(Key("P", stage, axis, parameter).short, ())
            together = sorted({*listed, *values})
            return self.knob(stage, parameter, values, axis, candidates=together)

        return parts


def fused_parts(fused: str) -> list[str]:
    """The loops that a fused one was made of: `i.outer.j.outer.fused` is i.outer and j.outer."""
    parts: list[str] = []
    for word in fused.removesuffix(".fused").split("."):
        if word in ("outer", "inner", "c"):
            parts[-1] += f".{word}"
        else:
            parts.append(word)
    return parts
