"""Rules of VTA for loops: virtual threads, tiles that fit scratchpads, its matrix instruction."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.algebra.constraints import Le, MinOf, Prod, SelectFrom, Sum, Term
from tilewright.heron import steps
from tilewright.heron.names import Key
from tilewright.heron.rules.base import HeronRule, heron_rules, is_root
from tilewright.heron.template import Template, TensorStage
from tilewright.vta.configuration import Configuration
from tilewright.vta.machine import LEAST_DISTANCE
from tilewright.vta.names import ACC, BLOCK, GEMM, INP, SCOPES, WGT

_MOST_THREADS = 2
_MEMORIES = (SCOPES[INP], SCOPES[WGT], SCOPES[ACC])
# Elements of each scratchpad.
_DEPTHS = {memory.name.lower(): Configuration().depth(memory) for memory in _MEMORIES}


def _is_accumulator(template: Template, stage: TensorStage) -> str | None:
    is_it = stage.name == template.facts["accumulator"]
    return None if is_it else "it is not computed in the accumulator"


@heron_rules.register("Bind-Cthread")
class BindVirtualThreads(HeronRule):
    """Two virtual threads, each with scratchpads of its own, hide loads behind computation."""

    name = "Bind-Cthread"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if is_root(template, stage) else "it is computed inside another stage"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Bind cthread")

        def threads(axis: str) -> Term:
            return template.knob(stage.name, "cthread", (1, 2), axis, candidates=(1, 2))

        for lane in stage.lanes:
            if lane in stage.spatial:
                template.whole(stage.name, lane)
        axes = [axis for axis in stage.spatial if axis not in stage.lanes]
        outers = template.tile(stage.name, axes, threads, "cthread")
        fused = template.fuse(stage.name, outers)
        template.mark(steps.BindStep(stage.name, fused, "vthread"), fused, "cthread")
        stage.positions.append(fused)
        origin = f"at most {_MOST_THREADS} virtual threads"
        template.require(Le(origin, template.loop(stage.name, fused), _MOST_THREADS))
        template.facts["threads"] = template.loop(stage.name, fused)


@heron_rules.register("Tile-Store")
class TileStore(HeronRule):
    """Tiles of the output that are stored at once."""

    name = "Tile-Store"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if is_root(template, stage) else "it is computed inside another stage"

    def apply(self, template: Template, stage: TensorStage) -> None:
        template.heading(stage.name, "## Store position")
        axes = [axis for axis in stage.loops if axis.endswith(".inner")]
        outers = template.tile(stage.name, axes, template.tile_knob(stage.name, "tileStore"))
        stage.positions.append(outers[-1])


@heron_rules.register("Tensorize-VTA")
class TensorizeMatrix(HeronRule):
    """Blocks of 16 x 16 become the matrix instruction; tiles of blocks fit the scratchpads."""

    name = "Tensorize"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return _is_accumulator(template, stage)

    def apply(self, template: Template, stage: TensorStage) -> None:
        """Sums run outside the rows and columns of a tile: see the distance below."""
        template.heading(stage.name, f"## Tensorize {GEMM}\n")
        name = stage.name
        depth, *lanes = _instruction_loops(template, stage)
        template.tile(name, [depth], template.tile_knob(name, "tileAll"))
        outer, inner = f"{depth}.outer", f"{depth}.inner"
        window = [axis for axis in stage.reduced[1:] if axis not in lanes]
        tile = [
            axis
            for axis in stage.loops
            if template.root(name, axis) in stage.spatial and axis not in lanes
        ]
        template.reorder(name, [outer, inner, *window, *tile, *lanes])
        stage.positions.append(outer)
        template.facts[f"tensorized {name}"] = tuple(lanes)
        template.steps.append(steps.StartReduction(name, outer))
        template.steps.append(steps.TensorizeLoops(name, lanes[0], GEMM))
        for axis in window:
            template.whole(name, axis)
        self._limit(template, stage, tile, [inner, *window])

    def _limit(
        self, template: Template, stage: TensorStage, tile: list[str], sums: list[str]
    ) -> None:
        """Capacities, and the distance between two writes of one result."""
        threads = str(template.facts["threads"])
        loops = {template.root(stage.name, axis): axis for axis in (*tile, *sums)}
        sizes: dict[str, list[Term]] = {"acc": [template.loop(stage.name, axis) for axis in tile]}
        for memory, read in zip(("inp", "wgt"), stage.reads, strict=True):
            sizes[memory] = _operand_extents(template, stage, template.stages[read], loops)
        for memory, most in _DEPTHS.items():
            whole = template.declare(Key("V", None, None, f"{memory}_mem"), range(1, 1 << 24))
            template.require(
                Prod(f"elements of the {memory} scratchpad", whole, (threads, *sizes[memory])),
                Le(f"{memory} scratchpad: {most} elements", whole, most),
            )
        depth = template.product(
            stage.name, "sum_tile", [template.loop(stage.name, axis) for axis in sums], "steps"
        )
        self._keep_distance(template, stage.name, sizes["acc"], depth)

    def _keep_distance(self, template: Template, name: str, tile: list[Term], depth: Term) -> None:
        origin = f"a result is written again after {LEAST_DISTANCE} instructions at the earliest"
        area = template.product(name, "acc_tile", tile, "results of a tile")

        def helper(what: str, domain: tuple[int, ...]) -> str:
            return template.declare(Key("O", name, None, what), domain)

        repeats, place = helper("repeats", (1, 2)), helper("repeats_place", (0, 1))
        least = helper("least_distance", (1, LEAST_DISTANCE))
        template.require(
            MinOf(origin, repeats, (depth, 2)),
            Sum(origin, repeats, (place, 1)),
            SelectFrom(origin, least, place, (1, LEAST_DISTANCE)),
            Le(origin, least, area),
        )


def _instruction_loops(template: Template, stage: TensorStage) -> tuple[str, str, str]:
    """The loop over blocks of sums, and those over the results and the sums of a block."""
    if stage.lanes:
        results, sums = stage.lanes
        return stage.reduced[0], results, sums
    column, reduced = stage.spatial[-1], stage.reduced[0]
    for axis in (column, reduced):
        origin = f"{GEMM} takes blocks of {BLOCK} of {axis}"
        template.split(stage.name, axis, BLOCK, by_factor=True, origin=origin)
    return f"{reduced}.outer", f"{column}.inner", f"{reduced}.inner"


def _operand_extents(
    template: Template, stage: TensorStage, operand: TensorStage, loops: Mapping[str, str]
) -> list[Term]:
    """How many blocks of an operand a tile needs, iterator by iterator."""
    found: list[Term] = []
    for axis in operand.spatial:
        own = operand.follows[axis]
        if own not in loops:
            continue
        inside = template.loop(stage.name, loops[own])
        found.append(template.window(operand, axis, inside) if axis in operand.windows else inside)
    return found


@heron_rules.register("Load-Scratchpad")
class LoadScratchpad(HeronRule):
    """Operands are copied by blocks; nothing about it is open."""

    name = "Load-Scratchpad"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        is_load = stage.scope in (INP, WGT)
        return None if is_load else "it is no operand in a scratchpad"

    def apply(self, template: Template, stage: TensorStage) -> None:
        row = stage.spatial[-1]
        pieces = template.declare(Key("V", stage.name, row, "blocks"), range(1, 1 << 20))
        origin = f"{stage.name} is loaded in blocks of {BLOCK}"
        template.require(Prod(origin, template.loop(stage.name, row), (pieces, BLOCK)))
