"""`MultiLevelTiling`: split each loop of a block into tiles, with copies of inputs and results.

The structure says where the pieces go, outermost first: with `SSRSRS` each spatial loop becomes
four loops and each reduction loop two. The rule is a list of steps, each of which takes a state to
the states to go on with; rules that build on it change that list (`sub_rules`) or a single step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

from typing_extensions import Self

from tilewright.errors import TuneError
from tilewright.ir import For, IntImm, IterType, PrimExpr, SeqStmt, annotation_keys as keys
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.analysis import is_write_cache
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext, schedule_rules
from tilewright.space.conditions import why_not_multi_level_tiling
from tilewright.target import Target

Requirement = Literal["no", "may", "must"]


@dataclass(frozen=True)
class ReuseType:
    """`levels` are tiles counted from 1, outermost first; a copy lives in `scope`."""

    req: Requirement = "no"
    levels: Sequence[int] = ()
    scope: str = ""

    def __post_init__(self) -> None:
        if self.req not in get_args(Requirement):
            raise TuneError(f"ReuseType: req is 'no', 'may' or 'must', got {self.req!r}")
        object.__setattr__(self, "levels", tuple(self.levels))

    def as_dict(self) -> dict[str, object]:
        """The form in which rules of TVM take it."""
        return {"req": self.req, "levels": list(self.levels), "scope": self.scope}


NO_REUSE = ReuseType()
ReuseLike = ReuseType | Mapping[str, Any] | None


def as_reuse(value: ReuseLike) -> ReuseType:
    """A reuse given as such, as a dictionary, or not at all."""
    if value is None:
        return NO_REUSE
    return value if isinstance(value, ReuseType) else ReuseType(**value)


Factor: TypeAlias = int | PrimExpr


@dataclass
class TilingState:
    """`tiles[i]` holds the loops of the i-th letter of the structure, outermost first.

    `factors[i][k]` is the extent that `tiles[i][k]` was given. Steps of subclassed rules derive
    from this class to remember more.
    """

    sch: Schedule
    block: BlockRV
    tiles: list[list[LoopRV]] = field(default_factory=list)
    factors: list[list[Factor]] = field(default_factory=list)
    read_caches: dict[int, BlockRV] = field(default_factory=dict)  # by the number of the read
    write_caches: dict[int, BlockRV] = field(default_factory=dict)  # by the level

    def copy(self) -> Self:
        """A state with a schedule of its own, which forks the random engine."""
        return replace(
            self,
            sch=self.sch.copy(),
            tiles=[list(tile) for tile in self.tiles],
            factors=[list(tile) for tile in self.factors],
            read_caches=dict(self.read_caches),
            write_caches=dict(self.write_caches),
        )


FilterFn: TypeAlias = Callable[[Schedule, StmtSRef], bool]
SubRule: TypeAlias = Callable[[Any], Sequence[Any]]  # of a (subclass of) TilingState

# How wide vector loads of a type may be; types that are not listed load as wide as asked for.
_WIDEST_LOAD = {"float32": 4, "float16": 8, "int8": 16}
# Copies from global to shared memory can run by themselves from this architecture on.
_ASYNC_COPY_ARCH = 80
_ASYNC_STAGES = (4, 5)


@schedule_rules.register("MultiLevelTiling")
class MultiLevelTiling(ScheduleRule):
    """Tiles blocks that reuse data, and those that `filter_fn` asks for.

    Of the tiles, the first are bound to `tile_binds`. `vector_load_lens` are the widths that
    cooperative fetching of inputs may choose from.
    """

    def __init__(
        self,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseLike = None,
        reuse_write: ReuseLike = None,
        filter_fn: FilterFn | None = None,
    ) -> None:
        self.structure = structure
        self.s_indices, self.r_indices = _slots(structure)
        self.tile_binds = list(tile_binds or ())
        self.max_innermost_factor = -1 if max_innermost_factor is None else max_innermost_factor
        self.vector_load_lens = list(vector_load_lens or ())
        self.reuse_read = as_reuse(reuse_read)
        self.reuse_write = as_reuse(reuse_write)
        self.filter_fn = filter_fn
        self.max_threads_per_block: int | None = None
        self.thread_warp_size: int | None = None
        self.async_stages: tuple[int, ...] = ()
        self._check()

    def _check(self) -> None:
        if len(self.tile_binds) > len(self.structure):
            raise TuneError(
                f"MultiLevelTiling: {len(self.tile_binds)} tiles are to be bound, the structure "
                f"{self.structure!r} has {len(self.structure)}"
            )
        if self.reuse_read.req == "may":
            raise TuneError("MultiLevelTiling: reuse_read is 'no' or 'must', 'may' is not possible")
        for what, reuse in (("reuse_read", self.reuse_read), ("reuse_write", self.reuse_write)):
            if wrong := [level for level in reuse.levels if not 1 <= level <= len(self.structure)]:
                raise TuneError(
                    f"MultiLevelTiling: {what} has the levels {wrong}, the structure "
                    f"{self.structure!r} has the levels 1 to {len(self.structure)}"
                )

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        target: Target | None = context.target
        if target is None:
            return
        threads, warp = (target.attrs.get(k) for k in ("max_threads_per_block", "thread_warp_size"))
        if isinstance(threads, int) and isinstance(warp, int):
            self.max_threads_per_block, self.thread_warp_size = threads, warp
        arch = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
        copies_async = arch is not None and int(arch[1]) >= _ASYNC_COPY_ARCH
        self.async_stages = _ASYNC_STAGES if copies_async else ()

    # --- the frame of all tiling rules ----------------------------------------------------------

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if reason := self.why_not(sch, block):
            return NotApplied(sch, reason)
        sch.annotate(block, keys.TILING_STRUCTURE, self.structure)
        return [state.sch for state in self.run(TilingState(sch, block))]

    def why_not(self, sch: Schedule, block: BlockRV) -> str:
        """Why the rule is not meant for the block; empty if it is."""
        sref = sch.get_sref(block)
        wanted = self.filter_fn is not None and self.filter_fn(sch, sref)
        return "" if wanted else why_not_multi_level_tiling(sref)

    def sub_rules(self) -> Sequence[SubRule]:
        """The steps of the rule in order; each takes a state to the states to go on with."""
        return (
            self.tile_loop_nest,
            self.add_write_reuse,
            self.add_read_reuse,
            self.add_async_pipeline,
        )

    def run(self, state: TilingState) -> list[TilingState]:
        """Apply all steps, each to all states that the step before it left."""
        states = [state]
        for sub_rule in self.sub_rules():
            states = [after for before in states for after in sub_rule(before)]
        return states

    # --- tiles ----------------------------------------------------------------------------------

    def tile_loop_nest(self, state: TilingState) -> list[TilingState]:
        """Split all loops, bring the pieces in order, bind those of the first tiles."""
        sch, block = state.sch, state.block
        loops = sch.get_loops(block)
        nest = BlockNest(sch.get_sref(block).block)
        self._split_all(state, loops)
        sch.reorder(*(loop for tile in state.tiles for loop in tile))
        for slot, thread_axis in enumerate(self.tile_binds):
            fused = sch.fuse(*state.tiles[slot])
            sch.bind(fused, thread_axis)
            state.tiles[slot] = [fused]
        if self.thread_warp_size is not None and self.max_threads_per_block is not None:
            wide = nest.points(nest.spatial) > 2 * self.thread_warp_size
            sch.annotate(block, keys.THREAD_EXTENT_LOW, self.thread_warp_size if wide else 1)
            sch.annotate(block, keys.THREAD_EXTENT_HIGH, self.max_threads_per_block)
        return [state]

    def _split_all(self, state: TilingState, loops: Sequence[LoopRV]) -> None:
        state.tiles = [[] for _ in self.structure]
        state.factors = [[] for _ in self.structure]
        slots = {IterType.DATA_PAR: self.s_indices, IterType.COMM_REDUCE: self.r_indices}
        iter_vars = state.sch.get_sref(state.block).block.iter_vars
        factors: Sequence[Factor]
        pieces: Sequence[LoopRV]
        for loop, iter_var in zip(loops, iter_vars, strict=True):
            wanted = slots.get(iter_var.iter_type, ())
            if not wanted:
                continue
            if len(wanted) == 1:
                factors, pieces = [state.sch.get_sref(loop).loop.extent], [loop]
            else:
                factors, pieces = self.split_loop(state.sch, state.block, loop, len(wanted))
            for slot, factor, piece in zip(wanted, factors, pieces, strict=True):
                state.tiles[slot].append(piece)
                state.factors[slot].append(factor)

    def split_loop(
        self, sch: Schedule, block: BlockRV, loop: LoopRV, n_tiles: int
    ) -> tuple[Sequence[Factor], Sequence[LoopRV]]:
        """Split one loop into two or more tiles: their extents and the loops."""
        factors = sch.sample_perfect_tile(loop, n_tiles, self.max_innermost_factor)
        return factors, sch.split(loop, factors)

    # --- copies of results ----------------------------------------------------------------------

    def add_write_reuse(self, state: TilingState) -> list[TilingState]:
        """Compute results in a cache, or let an existing consumer be the one who copies."""
        sch, block = state.sch, state.block
        reuse = self._write_reuse_of(sch.get_sref(block))
        if reuse.req == "no":
            return [state]
        results: list[TilingState] = []
        if reuse.req == "may":
            consumers = sch.get_consumers(block)
            if len(consumers) == 1 and _only_copies(sch, consumers[0]):
                moved = [self._move_to_level(state, consumers[0], k) for k in reuse.levels]
                return [*moved, state]
            results.append(state.copy())
        cache = sch.cache_write(block, 0, reuse.scope)
        results.extend(self._move_to_level(state, cache, level) for level in reuse.levels)
        return results

    def _write_reuse_of(self, block: StmtSRef) -> ReuseType:
        """What the rule asks for, unless the block itself names its levels."""
        if (levels := block.block.annotations.get(keys.WRITE_CACHE_LEVEL)) is None:
            return self.reuse_write
        numbers = [level.value if isinstance(level, IntImm) else int(level) for level in levels]
        return ReuseType("must", numbers, self.reuse_write.scope)

    @staticmethod
    def _move_to_level(state: TilingState, cache: BlockRV, level: int) -> TilingState:
        made = state.copy()
        made.sch.reverse_compute_at(cache, made.tiles[level - 1][-1], preserve_unit_loops=True)
        made.write_caches[level] = cache
        return made

    # --- copies of inputs -----------------------------------------------------------------------

    def add_read_reuse(self, state: TilingState) -> list[TilingState]:
        """Copy each input at one of the levels; threads fetch it together."""
        if self.reuse_read.req == "no":
            return [state]
        results = []
        for level in self.reuse_read.levels:
            made = state.copy()
            stmt = made.sch.get_sref(made.block).block
            result = stmt.writes[0].buffer
            for index, region in enumerate(stmt.reads):
                if region.buffer is not result:
                    self._cache_read(made, index, level)
            results.append(made)
        return results

    def _cache_read(self, state: TilingState, index: int, level: int) -> None:
        sch = state.sch
        cache = sch.cache_read(state.block, index, self.reuse_read.scope, [state.block])
        sch.compute_at(cache, state.tiles[level - 1][-1], preserve_unit_loops=True)
        ndim = sch.get_sref(cache).block.writes[0].buffer.ndim
        sch.fuse(*sch.get_loops(cache)[-ndim:])
        self.annotate_cooperative_fetch(sch, cache)
        state.read_caches[index] = cache

    def annotate_cooperative_fetch(self, sch: Schedule, cache: BlockRV) -> None:
        """Choose how many elements each thread copies at once."""
        dtype = str(sch.get_sref(cache).block.writes[0].buffer.dtype)
        if lengths := [n for n in self.vector_load_lens if _can_load(dtype, n)]:
            chosen = sch.sample_categorical(lengths, [1.0 / len(lengths)] * len(lengths))
            sch.annotate(cache, keys.COOPERATIVE_FETCH, chosen)

    # --- copies that overlap with computing -----------------------------------------------------

    def add_async_pipeline(self, state: TilingState) -> list[TilingState]:
        """Offer, besides the plain program, pipelines that fetch inputs some rounds ahead."""
        if not self.async_stages or not self.r_indices:
            return [state]
        outer = state.tiles[self.r_indices[0]]
        if not outer or not _holds_three_loops(state.sch.get_sref(outer[-1])):
            return [state]
        return [state, *(self._pipelined(state, stages) for stages in self.async_stages)]

    def _pipelined(self, state: TilingState, stages: int) -> TilingState:
        made = state.copy()
        loop = made.sch.fuse(*made.tiles[self.r_indices[0]])
        made.sch.annotate(loop, keys.SOFTWARE_PIPELINE_STAGE, [0, 0, stages - 2])
        made.sch.annotate(loop, keys.SOFTWARE_PIPELINE_ORDER, [0, 1, 2])
        made.sch.annotate(loop, keys.SOFTWARE_PIPELINE_ASYNC_STAGES, [0])
        return made


def _slots(structure: str) -> tuple[list[int], list[int]]:
    """Where the spatial and where the reduction pieces go."""
    wrong = sorted(set(structure) - set("SR"))
    if wrong or not structure:
        raise TuneError(
            f"MultiLevelTiling: a structure is made of S (spatial) and R (reduction), for example "
            f"'SSRSRS', got {structure!r}"
        )
    spatial, reduction = (
        [slot for slot, letter in enumerate(structure) if letter == kind] for kind in "SR"
    )
    return spatial, reduction


def _only_copies(sch: Schedule, consumer: BlockRV) -> bool:
    """Whether a consumer can be the copy: what else it reads is not computed beside the block."""
    return is_write_cache(sch, consumer) and len(sch.get_producers(consumer)) == 1


def _can_load(dtype: str, length: int) -> bool:
    even = dtype != "float16" or length == 1 or length % 2 == 0
    return even and length <= _WIDEST_LOAD.get(dtype, length)


def _holds_three_loops(loop: StmtSRef) -> bool:
    """The shape that two fetched inputs and one computation leave."""
    body = loop.loop.body
    return (
        isinstance(body, SeqStmt)
        and len(body.seq) == 3
        and all(isinstance(child, For) for child in body.seq)
    )
