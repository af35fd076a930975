"""Schedule primitives as values: how each reads as text, and how it is replayed on a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.algebra.constraints import Term
from tilewright.heron.names import python_name
from tilewright.ir import IRModule
from tilewright.ir.annotation_keys import AUTO_UNROLL_MAX_STEP, UNROLL_EXPLICIT_PRAGMA
from tilewright.schedule import BlockRV, LoopRV, Schedule

Values = Mapping[str, int]


@dataclass
class Player:
    """A program on which steps are replayed with given values."""

    sch: Schedule
    values: Values
    blocks: dict[str, BlockRV] = field(default_factory=dict)
    loops: dict[tuple[str, str], LoopRV] = field(default_factory=dict)

    @classmethod
    def on(cls, mod: IRModule, values: Values) -> Player:
        """A fresh schedule."""
        return cls(Schedule(mod, seed=1, error_render_level="fast"), values)

    def value(self, term: Term) -> int:
        """The number that a term stands for."""
        return self.values[term] if isinstance(term, str) else term

    def begin(self, stage: str, axes: Sequence[str]) -> None:
        """Name the innermost loops of a block."""
        found = self.sch.get_loops(self.blocks[stage])[-len(axes) :]
        for axis, loop in zip(axes, found, strict=True):
            self.loops[stage, axis] = loop

    def all(self, stage: str, axes: Sequence[str]) -> list[LoopRV]:
        """Loops by name."""
        return [self.loops[stage, axis] for axis in axes]


@dataclass(frozen=True)
class ScheduleStep(ABC):
    """One primitive on one stage."""

    stage: str

    @property
    def script_stage(self) -> str:
        """How a script writes the stage."""
        return f"s[{self.stage.replace('.', '_')}]"

    @abstractmethod
    def text(self, values: Values) -> str:
        """A line of script."""

    @abstractmethod
    def replay(self, player: Player) -> None:
        """Do it."""


def _names(axes: Sequence[str]) -> str:
    return "".join(f"{python_name(axis)}, " for axis in axes)


@dataclass(frozen=True)
class Heading(ScheduleStep):
    """A comment between steps."""

    words: str

    def text(self, values: Values) -> str:
        return self.words

    def replay(self, player: Player) -> None:
        pass


@dataclass(frozen=True)
class FindBlock(ScheduleStep):
    """The block of the program that a stage is, with its loops."""

    block: str
    axes: tuple[str, ...]

    def text(self, values: Values) -> str:
        return ""

    def replay(self, player: Player) -> None:
        player.blocks[self.stage] = player.sch.get_block(self.block)
        player.begin(self.stage, self.axes)


@dataclass(frozen=True)
class TakeLoops(ScheduleStep):
    """The loops of a stage that a cache has just made."""

    axes: tuple[str, ...]

    def text(self, values: Values) -> str:
        return ""

    def replay(self, player: Player) -> None:
        player.begin(self.stage, self.axes)


@dataclass(frozen=True)
class SplitStep(ScheduleStep):
    """A loop becomes two: `parts` times what is left, or pieces of that size."""

    axis: str
    parts: Term
    by_factor: bool = False

    def text(self, values: Values) -> str:
        number = values.get(self.parts, 1) if isinstance(self.parts, str) else self.parts
        name = python_name(self.axis)
        how = "factor" if self.by_factor else "nparts"
        return f"{name}_o, {name}_i = {self.script_stage}.split({name}, {how} = {number})"

    def replay(self, player: Player) -> None:
        size = player.value(self.parts)
        factors = [None, size] if self.by_factor else [size, None]
        made = player.sch.split(player.loops[self.stage, self.axis], factors)
        player.loops[self.stage, f"{self.axis}.outer"] = made[0]
        player.loops[self.stage, f"{self.axis}.inner"] = made[1]


@dataclass(frozen=True)
class ReorderStep(ScheduleStep):
    """Loops in a new order."""

    axes: tuple[str, ...]

    def text(self, values: Values) -> str:
        return f"{self.script_stage}.reorder({_names(self.axes)})"

    def replay(self, player: Player) -> None:
        player.sch.reorder(*player.all(self.stage, self.axes))


@dataclass(frozen=True)
class FuseStep(ScheduleStep):
    """Neighbouring loops become one."""

    axes: tuple[str, ...]
    fused: str

    def text(self, values: Values) -> str:
        return f"{python_name(self.fused)} = {self.script_stage}.fuse({_names(self.axes)})"

    def replay(self, player: Player) -> None:
        player.loops[self.stage, self.fused] = player.sch.fuse(*player.all(self.stage, self.axes))


@dataclass(frozen=True)
class ParallelStep(ScheduleStep):
    """Iterations run on different cores."""

    axis: str

    def text(self, values: Values) -> str:
        return f"{self.script_stage}.parallel({python_name(self.axis)})"

    def replay(self, player: Player) -> None:
        player.sch.parallel(player.loops[self.stage, self.axis])


@dataclass(frozen=True)
class BindStep(ScheduleStep):
    """Iterations run on different blocks or threads of a GPU."""

    axis: str
    thread: str

    def text(self, values: Values) -> str:
        return f'{self.script_stage}.bind({python_name(self.axis)}, "{self.thread}")'

    def replay(self, player: Player) -> None:
        player.sch.bind(player.loops[self.stage, self.axis], self.thread)


@dataclass(frozen=True)
class VectorizeStep(ScheduleStep):
    """Iterations become lanes; `switch`: a parameter that is 1 where they do."""

    axis: str
    switch: Term = 1

    def text(self, values: Values) -> str:
        line = f"{self.script_stage}.vectorize({python_name(self.axis)})"
        return line if self._is_on(values) else ""

    def _is_on(self, values: Values) -> bool:
        return bool(values.get(self.switch, 0) if isinstance(self.switch, str) else self.switch)

    def replay(self, player: Player) -> None:
        if self._is_on(player.values):
            player.sch.vectorize(player.loops[self.stage, self.axis])


@dataclass(frozen=True)
class UnrollPragma(ScheduleStep):
    """Loops below this one are unrolled up to a number of statements."""

    axis: str
    exponent: str
    base: int = 0  # 0: four times the parameter; else a power of it

    def steps(self, values: Values) -> int:
        """How many statements."""
        chosen = values.get(self.exponent, 0)
        return self.base**chosen if self.base else max(1, 4 * chosen)

    def text(self, values: Values) -> str:
        name, most = python_name(self.axis), self.steps(values)
        return f'{self.script_stage}.pragma({name}, "auto_unroll_max_step", {most})'

    def replay(self, player: Player) -> None:
        loop, most = player.loops[self.stage, self.axis], self.steps(player.values)
        player.sch.annotate(loop, AUTO_UNROLL_MAX_STEP, most)
        player.sch.annotate(loop, UNROLL_EXPLICIT_PRAGMA, 1)


@dataclass(frozen=True)
class CacheWriteStep(ScheduleStep):
    """The result is computed into another memory first: `stage` becomes the copy of `new`."""

    new: str
    scope: str

    def text(self, values: Values) -> str:
        made = self.new.replace(".", "_")
        return f"{made} = s.cache_write({self.stage}, {self.scope})"

    def replay(self, player: Player) -> None:
        computed = player.blocks[self.stage]
        player.blocks[self.stage] = player.sch.cache_write(computed, 0, self.scope)
        player.blocks[self.new] = computed


@dataclass(frozen=True)
class CacheResult(ScheduleStep):
    """The result goes through two memories: `stage` copies it out of the stage `outer`,

    which copies it out of `computed`.
    """

    outer: str
    computed: str
    scopes: tuple[str, str]

    def text(self, values: Values) -> str:
        computed, outer = self.computed.replace(".", "_"), self.outer.replace(".", "_")
        return (
            f"{computed} = s.cache_write({self.stage}, {self.scopes[1]})\n"
            f"{outer} = s.cache_read({computed}, {self.scopes[0]}, [{self.stage}])"
        )

    def replay(self, player: Player) -> None:
        block = player.blocks[self.stage]
        player.blocks[self.stage] = player.sch.cache_write(block, 0, self.scopes[0])
        player.blocks[self.outer] = player.sch.cache_write(block, 0, self.scopes[1])
        player.blocks[self.computed] = block


@dataclass(frozen=True)
class CacheReadStep(ScheduleStep):
    """An input of a stage is copied to another memory, as the stage `new`."""

    index: int
    source: str
    new: str
    scope: str

    def text(self, values: Values) -> str:
        made = self.new.replace(".", "_")
        return f"{made} = s.cache_read({self.source}, {self.scope}, [{self.stage}])"

    def replay(self, player: Player) -> None:
        block = player.blocks[self.stage]
        player.blocks[self.new] = player.sch.cache_read(block, self.index, self.scope)


@dataclass(frozen=True)
class ComputeAtStep(ScheduleStep):
    """The stage is computed inside a loop of its consumer: the one at a position."""

    consumer: str
    position: Term
    positions: tuple[str, ...]
    axes: tuple[str, ...]

    def _axis(self, values: Values) -> str:
        chosen = values.get(self.position, 0) if isinstance(self.position, str) else self.position
        return self.positions[chosen]

    def text(self, values: Values) -> str:
        consumer = f"s[{self.consumer.replace('.', '_')}]"
        return f"{self.script_stage}.compute_at({consumer}, {python_name(self._axis(values))})"

    def replay(self, player: Player) -> None:
        loop = player.loops[self.consumer, self._axis(player.values)]
        player.sch.compute_at(player.blocks[self.stage], loop, preserve_unit_loops=True)
        player.begin(self.stage, self.axes)


@dataclass(frozen=True)
class InlineStep(ScheduleStep):
    """The stage is computed where it is used."""

    def text(self, values: Values) -> str:
        return f"{self.script_stage}.compute_inline()"

    def replay(self, player: Player) -> None:
        player.sch.compute_inline(player.blocks[self.stage])


@dataclass(frozen=True)
class StorageAlignStep(ScheduleStep):
    """Rows of a buffer, `length` elements long, are an offset further apart than that."""

    length: str
    offset: str

    def text(self, values: Values) -> str:
        length, offset = values.get(self.length, 1), values.get(self.offset, 0)
        return f"{self.script_stage}.storage_align(ax0, {length}, {offset})"

    def replay(self, player: Player) -> None:
        length, offset = player.value(self.length), player.value(self.offset)
        if offset % length:
            block = player.blocks[self.stage]
            player.sch.storage_align(block, 0, -2, length, offset % length)


@dataclass(frozen=True)
class TensorizeLoops(ScheduleStep):
    """Everything from this loop inwards becomes one instruction, whose name may hold values."""

    axis: str
    intrinsic: str

    def name(self, values: Values) -> str:
        """The instruction for these values."""
        shape = {name: values.get(key, 16) for name, key in _WMMA.items()}
        return self.intrinsic.format(**shape)

    def text(self, values: Values) -> str:
        return f"{self.script_stage}.tensorize({python_name(self.axis)}, {self.name(values)})"

    def replay(self, player: Player) -> None:
        player.sch.tensorize(player.loops[self.stage, self.axis], self.name(player.values))


_WMMA = {letter: f"P#ST:None,AX:None,PA:wmma_{letter}" for letter in "mnk"}


@dataclass(frozen=True)
class StartReduction(ScheduleStep):
    """Sums start in a block of their own, before their outermost loop."""

    axis: str
    vector: str | None = None  # the loop of that block which becomes lanes
    intrinsic: str | None = None  # or what that block becomes

    def text(self, values: Values) -> str:
        return ""

    def replay(self, player: Player) -> None:
        sch, block = player.sch, player.blocks[self.stage]
        init = sch.decompose_reduction(block, player.loops[self.stage, self.axis])
        if self.vector is not None:
            sch.vectorize(sch.get_loops(init)[-1])
        if self.intrinsic is not None:
            shape = {name: player.values.get(key, 16) for name, key in _WMMA.items()}
            sch.tensorize(sch.get_loops(init)[-2], self.intrinsic.format(**shape))
