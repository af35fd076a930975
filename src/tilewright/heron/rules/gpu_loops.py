"""Rules of tensor cores for loops: blocks, warps, lanes, vectors, and instructions on fragments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.algebra.constraints import Eq, In, Le, Prod, Sum, Term
from tilewright.heron import steps
from tilewright.heron.names import Key
from tilewright.heron.rules.add_multi_level_spm import wmma
from tilewright.heron.rules.base import HeronRule, heron_rules, is_root
from tilewright.heron.template import Template, TensorStage

_WARP = 32
_MOST_THREADS = 1024
_VECTORS = (1, 2, 4, 8)
_OFFSETS = (0, 8, 16, 24, 32, 48)
_BYTES = {"float16": 2, "float32": 4, "int8": 1, "int32": 4}
SHARED_LIMIT = 48 * 1024  # bytes that a kernel may declare without asking
_LIMIT = f"max_shared_memory_per_block = {SHARED_LIMIT}"
_WARPS, _LANES, _BLOCKS = "threadIdx.y", "threadIdx.x", "blockIdx.x"


def _roles(template: Template) -> tuple[str, str, str]:
    """The names of the output, its copy in shared memory, and the accumulator."""
    found = template.facts["tensor core"]
    assert isinstance(found, tuple)
    return found


def _bind_tile(template: Template, stage: TensorStage, parameter: str, thread: str) -> str:
    """A level of tiles as blocks or threads; returns the extent."""
    template.heading(stage.name, f"## Bind {thread}")
    outers = template.tile(
        stage.name, stage.innermost, template.tile_knob(stage.name, parameter), thread
    )
    fused = template.fuse(stage.name, outers)
    template.mark(steps.BindStep(stage.name, fused, thread), fused, thread)
    stage.positions.append(fused)
    return template.loop(stage.name, fused)


@heron_rules.register("Tile-Block")
class TileBlocks(HeronRule):
    """The outer tiles of the output are blocks of threads."""

    name = "Tile-Block"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if is_root(template, stage) else "it is computed inside another stage"

    def apply(self, template: Template, stage: TensorStage) -> None:
        _bind_tile(template, stage, "tileBlock", _BLOCKS)
        *batch, _, _ = stage.innermost
        for axis in batch:
            origin = "a block works on one matrix of a batch"
            template.require(Eq(origin, template.loop(stage.name, axis), 1))


@heron_rules.register("Tile-Thread")
class TileThread(HeronRule):
    """The next tiles of the output, in global and in shared memory, are warps."""

    name = "Tile-Thread"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.name in _roles(template)[:2] else "it is no copy of the output"

    def apply(self, template: Template, stage: TensorStage) -> None:
        warps = _bind_tile(template, stage, "tileThread", _WARPS)
        if stage.name == _roles(template)[0]:
            template.facts["warps"] = warps
            most = _MOST_THREADS // _WARP
            template.require(Le(f"max_threads_per_block = {_MOST_THREADS}", warps, most))
        else:
            origin = "all stages of a kernel have the same warps"
            template.require(Eq(origin, warps, str(template.facts["warps"])))
            computed = template.stages[_roles(template)[2]]
            for own, axis in computed.follows.items():
                whole, part = (template.loop(stage.name, a) for a in (axis, f"{axis}.inner"))
                template.shared_by_warps[computed.name, own] = (whole, part)


@heron_rules.register("Tile-Warp")
class TileWarp(HeronRule):
    """The tiles after those of the output are the lanes of a warp."""

    name = "Tile-Warp"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.name == _roles(template)[0] else "it is tensorized"

    def apply(self, template: Template, stage: TensorStage) -> None:
        lanes = _bind_tile(template, stage, "tileWarp", _LANES)
        template.require(Eq(f"warp_size = {_WARP}", lanes, _WARP))


@heron_rules.register("Vectorize-Output")
class VectorizeOutput(HeronRule):
    """Neighbouring elements of a row of the output are stored together."""

    name = "Vectorize-Output"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.name == _roles(template)[0] else "it is not the output"

    def apply(self, template: Template, stage: TensorStage) -> None:
        axis = stage.loops[-1]
        row = stage.extents[template.root(stage.name, axis)]
        lanes = _vector_knob(template, stage.name, row, template.out_dtype)
        template.split(stage.name, axis, lanes, by_factor=True)
        inner = f"{axis}.inner"
        template.mark(steps.VectorizeStep(stage.name, inner), inner, "vectorize")


def _vector_knob(template: Template, stage: str, row: int, dtype: str) -> str:
    """How many elements are moved together: at most 16 bytes, and rows stay aligned to them."""
    widths = tuple(w for w in _VECTORS if w * _BYTES[dtype] <= 16 and row % w == 0)
    return template.knob(stage, "vector", widths, candidates=widths)


def _pad_rows(template: Template, stage: TensorStage, dtype: str) -> None:
    """Rows in shared memory further apart than long; counts the bytes."""
    *rows, row = (template.loop(stage.name, axis) for axis in stage.spatial)
    offset = template.knob(stage.name, "align_offset", _OFFSETS, candidates=_OFFSETS)
    template.steps.append(steps.StorageAlignStep(stage.name, row, offset))
    padded = template.declare(Key("V", stage.name, None, "padded_row"), range(1, 1 << 20))
    template.require(Sum(f"rows of {stage.name} with their offset", padded, (row, offset)))
    size = template.declare(Key("V", stage.name, None, "mem"), range(1, 1 << 40))
    origin = f"bytes of {stage.name} in shared memory"
    template.require(Prod(origin, size, (*rows, padded, _BYTES[dtype])))
    template.require(Le(_LIMIT, size, SHARED_LIMIT))
    sizes = template.facts.setdefault("shared bytes", [])
    assert isinstance(sizes, list)
    sizes.append(size)


@heron_rules.register("Storage-Align")
class StorageAlignOutput(HeronRule):
    """The output in shared memory has padded rows."""

    name = "Storage-Align"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.name == _roles(template)[1] else "it is not the output's shared copy"

    def apply(self, template: Template, stage: TensorStage) -> None:
        _pad_rows(template, stage, template.out_dtype)


@heron_rules.register("Tensorize-TensorCore")
class TensorizeFragments(HeronRule):
    """Loads, products and stores of fragments become instructions of a warp."""

    name = "Tensorize"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        is_on_fragments = "wmma" in stage.name
        return None if is_on_fragments else "it does not work on fragments"

    def apply(self, template: Template, stage: TensorStage) -> None:
        sides = self._sides(template, stage)
        template.heading(stage.name, "## Tensorize\n")
        inner = []
        for axis, letter in sides:
            origin = f"tiles of tensor cores along {axis} in {stage.name}"
            template.split(stage.name, axis, wmma(letter), by_factor=True, origin=origin)
            inner.append(f"{axis}.inner")
        outer = [axis for axis in stage.loops if axis not in inner]
        template.reorder(stage.name, [*outer, *inner])
        template.facts[f"tensorized {stage.name}"] = tuple(inner)

    def _sides(self, template: Template, stage: TensorStage) -> list[tuple[str, str]]:
        """Which loops an instruction takes, and how much of each."""
        _, shared, computed = _roles(template)
        loops = stage.innermost
        if stage.name == computed:
            return list(zip(loops[-3:], "mnk", strict=True))
        if stage.name == shared:
            return list(zip(loops[-2:], "mn", strict=True))
        return list(zip(loops[-2:], "mk" if "matrix_a" in stage.name else "nk", strict=True))


@heron_rules.register("Emit-TensorCore")
class EmitInstructions(HeronRule):
    """Puts the instructions in once all tiles are made."""

    name = "Emit-TensorCore"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if f"tensorized {stage.name}" in template.facts else "it is not tensorized"

    def apply(self, template: Template, stage: TensorStage) -> None:
        inner = template.facts[f"tensorized {stage.name}"]
        assert isinstance(inner, tuple)
        short = {"float16": "f16", "float32": "f32"}
        i, o = short.get(template.in_dtype, "f16"), short.get(template.out_dtype, "f16")
        tile = "{m}x{n}x{k}"
        _, shared, computed = _roles(template)
        if stage.name == computed:
            first = next(a for a in stage.loops if template.root(stage.name, a) in stage.reduced)
            fill = f"wmma_fill_{tile}_{o}"
            template.steps.append(steps.StartReduction(stage.name, first, None, fill))
            knob = Key("P", _roles(template)[0], None, "unroll_pragma").full
            template.steps.append(steps.UnrollPragma(stage.name, stage.loops[0], knob, base=4))
            name = f"wmma_sync_{tile}_{i}{i}{o}_trans"
        elif stage.name == shared:
            name = f"wmma_store_{tile}_{o}_shared"
        elif "matrix_a" in stage.name:
            name = f"wmma_load_{tile}_{i}_a_shared"
        else:
            name = f"wmma_load_{tile}_{i}_b_trans_shared"
        template.steps.append(steps.TensorizeLoops(stage.name, inner[0], name))


@heron_rules.register("Default-Shared-Load")
class SharedLoad(HeronRule):
    """All threads of a block copy an operand to shared memory together."""

    name = "Default-Shared-Load"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        is_operand = stage.scope == "shared" and stage.name not in _roles(template)
        return None if is_operand else "it is no operand in shared memory"

    def apply(self, template: Template, stage: TensorStage) -> None:
        name = stage.name
        _pad_rows(template, stage, template.in_dtype)
        row = stage.spatial[-1]
        run = math.gcd(stage.extents[row], stage.run)
        lanes = _vector_knob(template, name, run, template.in_dtype)
        pieces = template.declare(Key("V", name, row, "pieces"), range(1, stage.extents[row] + 1))
        origin = f"vectors of {name} lie in one row"
        template.require(Prod(origin, template.loop(name, row), (pieces, lanes)))
        fused = template.fuse(name, list(stage.spatial))
        for axis, size in _nested(fused, (lanes, _WARP, str(template.facts["warps"]))):
            template.split(name, axis, size, by_factor=True)
        warps, threads, vector = (f"{fused}{'.outer' * n}.inner" for n in (2, 1, 0))
        template.mark(steps.BindStep(name, warps, _WARPS), warps, _WARPS)
        template.mark(steps.BindStep(name, threads, _LANES), threads, _LANES)
        template.mark(steps.VectorizeStep(name, vector), vector, "vectorize")


def _nested(axis: str, sizes: Sequence[Term]) -> list[tuple[str, Term]]:
    """Cuts of one loop from the inside out."""
    return [(axis + ".outer" * place, size) for place, size in enumerate(sizes)]


@heron_rules.register("Place-Stages")
class PlaceStages(HeronRule):
    """Fixes where copies of the output are computed, and in which order operands are loaded."""

    name = "Place-Stages"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.name == _roles(template)[2] else "it is not the accumulator"

    def apply(self, template: Template, stage: TensorStage) -> None:
        output, shared, computed = _roles(template)
        positions = range(len(stage.positions))
        pins = (
            (output, "shared_pos", output, _BLOCKS, "a block has the output tile in shared memory"),
            (shared, "local_pos", shared, _WARPS, "a warp has its own accumulators"),
        )
        for owner, parameter, where, thread, origin in pins:
            found = template.stages[where]
            place = next(p for p, axis in enumerate(found.positions) if found.tags[axis] == thread)
            template.require(Eq(origin, Key("P", owner, None, parameter).full, place))
        knobs = [Key("P", computed, None, f"{name}_pos").full for name in ("shared", "local")]
        for knob in knobs:
            origin = f"tiles of {computed}"
            template.require(In(origin, knob, tuple(positions)))
        template.require(Le("fragments are loaded from shared memory", *knobs))


@heron_rules.register("Shared-Limit")
class SharedLimit(HeronRule):
    """Everything in shared memory at once fits."""

    name = "Shared-Limit"

    def why_not(self, template: Template, stage: TensorStage) -> str | None:
        return None if stage.name == template.facts["last stage"] else "it is not the last stage"

    def apply(self, template: Template, stage: TensorStage) -> None:
        sizes = template.facts["shared bytes"]
        assert isinstance(sizes, list)
        whole = template.declare(Key("V", None, None, "shared_mem"), range(1, 4 * SHARED_LIMIT))
        template.require(Sum("bytes in shared memory", whole, tuple(sizes)))
        template.require(Le(_LIMIT, whole, SHARED_LIMIT))
