"""Sizes of a tile kernel: threads, registers, and who lies where in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.lowering.gpu.tile_kernels.gathering import Gathering
from tilewright.lowering.gpu.tile_kernels.staging import ImageRing, StagedImage, ring_bytes
from tilewright.lowering.gpu.tile_kernels.tensor_maps import (
    ROW_BYTES,
    OperandMap,
    TensorMap,
    operand_map,
    output_map,
)
from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, refused

WARP, WARP_GROUP = 32, 128  # threads that run together, and those that run `wgmma` together
_MOST_IMAGE = 32768  # bytes
_WIDE_LOAD = 16  # bytes
_MOST_THREADS = 1024
_ALL_REGISTERS = 65536  # of a processor
_OTHER_REGISTERS = 32  # of a thread, beside its sums
MATRIX_ROWS = 64  # of one `wgmma`
_STEP_BYTES = 32  # of the sum, in one `wgmma`
_ATOM = 1024  # bytes: tiles begin at multiples
_MOST_STAGES = 8
_MOST_GATHERED_STAGES = 4  # what is gathered comes through the cache, which has the rest
_LEAST_STAGES = 4  # beside an operand that stays
PROCESSORS = 132
_MOST_STEPS = 1 << 31  # of all tiles together, times processors: places are counted in 32 bits
_MOST_SPLITS = 8  # blocks of a cluster, on every GPU that has clusters
# Registers of the threads that fetch, and of those that multiply, by the number of groups of these.
_REGISTERS = {1: (40, 232), 2: (40, 232), 3: (32, 160)}
_TYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
    "float32": "tf32",
}
_SHORT_FLOATS = ("float8_e4m3fn", "float8_e5m2")  # tensor cores drop digits of their sums
_MOST_SUMS = 160  # registers of a thread,
_MOST_PROMOTED = 192  # where some of them are free after each step
# Types of operands that can be multiplied with each other, and that of their sums.
_MULTIPLIED = (
    ({"float32"}, "float32"),
    ({"float16"}, "float32"),
    ({"bfloat16"}, "float32"),
    ({*_SHORT_FLOATS}, "float32"),
    ({"int8", "uint8"}, "int32"),
)
# Results of 16 bits, and the functions that make them of two sums.
PACKS = {"float16": "tw_pack_f16", "bfloat16": "tw_pack_bf16"}


def can_be_written(dtype: ir.DType) -> bool:
    """Whether bulk copies can write results of a type."""
    return dtype.itemsize == 4 or str(dtype) in PACKS


@dataclass(frozen=True)
class GroupLayout:
    """A tile kernel with all sizes settled."""

    form: TileForm
    left: OperandMap
    right: OperandMap
    shared_limit: int
    processors: int

    @staticmethod
    def of(form: TileForm, shared_limit: int, processors: int = PROCESSORS) -> GroupLayout:
        """The sizes for a form; refused where no such kernel exists."""
        may_gather = form.gatherers > 0
        made = GroupLayout(
            form,
            operand_map(form.left, "left_map", may_gather=may_gather),
            operand_map(form.right, "right_map", may_gather=may_gather),
            shared_limit,
            processors,
        )
        made.check()
        return made

    def check(self) -> None:
        """Refuse what the instructions cannot do."""
        form = self.form
        if not self.left.is_depth_first and self.left.panel != MATRIX_ROWS:
            raise refused("tiles of a left operand with contiguous columns have 64 of them a row")
        if form.consumers not in _REGISTERS:
            raise refused(f"it has {form.consumers} groups that multiply, expected 1 to 3")
        if form.gatherers and not self.gathered:
            raise refused("bulk copies can fetch all of it, there is nothing to gather")
        if self.threads > _MOST_THREADS:
            raise refused(f"it has {self.threads} threads, at most {_MOST_THREADS} exist")
        if form.row.extent % (MATRIX_ROWS * form.consumers):
            raise refused(f"{form.row.extent} rows are not 64 for each of {form.consumers} groups")
        if form.column.extent % 16 or not 16 <= form.column.extent <= 256:
            raise refused(f"it has {form.column.extent} columns, expected 16 to 256 in steps of 16")
        if form.splits > 1:
            self._check_splits()
        if form.is_streamed and self.tiles * self.steps * self.processors >= _MOST_STEPS:
            raise refused(f"{self.tiles} tiles of {self.steps} steps are too many to share")
        self._check_types()
        used = self.sums + self.promoted_columns // 2
        if used > self._most_sums:
            raise refused(
                f"each thread would have {used} sums in registers, at most {self._most_sums} fit"
            )
        if self.bytes > self.shared_limit:
            raise refused(
                f"it needs {self.bytes} bytes of shared memory, {self.shared_limit} exist"
            )

    def _check_splits(self) -> None:
        splits = self.form.splits
        if splits > _MOST_SPLITS or self.form.row.extent % splits:
            raise refused(f"{splits} blocks share a tile, expected 1, 2, 4 or 8")
        if self.steps < splits:
            raise refused(f"{splits} blocks share the {self.steps} steps of a tile")

    def _check_types(self) -> None:
        operands = [str(each.copy.store.buffer.dtype) for each in (self.form.left, self.form.right)]
        sums = str(self.form.sums.dtype)
        if not any({*operands} <= known and sums == total for known, total in _MULTIPLIED):
            raise refused(
                f"there is no instruction for {operands[0]} and {operands[1]} with sums of {sums}"
            )

    @property
    def tiles(self) -> int:
        """Of the result."""
        extent = self.form.tiles.extent
        assert isinstance(extent, ir.IntImm)
        return extent.value

    @property
    def steps(self) -> int:
        """Tiles along the sum."""
        extent = self.form.steps.extent
        assert isinstance(extent, ir.IntImm)
        return extent.value

    # --- threads and registers ------------------------------------------------------------------

    @property
    def threads(self) -> int:
        """Of a block: the groups that multiply, and one that fetches, or those that gather."""
        groups = self.form.consumers + max(1, self.form.gatherers)
        return WARP_GROUP * groups + (0 if self.image is None else WARP)

    @property
    def registers(self) -> tuple[int, int] | None:
        """Of a thread that fetches, and of one that multiplies; None: all have as many."""
        return None if self.form.gatherers else _REGISTERS[self.form.consumers]

    @property
    def _most_sums(self) -> int:
        """Sums for which a thread has registers."""
        if self.form.gatherers:
            threads = -(-self.threads // WARP_GROUP) * WARP_GROUP
            return _ALL_REGISTERS // threads - _OTHER_REGISTERS
        return _MOST_PROMOTED if self._is_promoted else _MOST_SUMS

    @property
    def gathered(self) -> tuple[OperandMap, ...]:
        """The operands that threads gather."""
        return tuple(each for each in (self.left, self.right) if each.map is None)

    @property
    def rows(self) -> int:
        """Of the result, for each group that multiplies."""
        return self.form.row.extent // self.form.consumers

    @property
    def matrices(self) -> int:
        """`wgmma` instructions that cover these rows."""
        return self.rows // MATRIX_ROWS

    @property
    def columns(self) -> int:
        """Of the result in a tile."""
        return self.form.column.extent

    @property
    def sums_of_matrix(self) -> int:
        """Registers of a thread that hold the results of one instruction."""
        return self.columns // 2

    @property
    def sums(self) -> int:
        """Registers of a thread that hold results."""
        return self.matrices * self.sums_of_matrix

    @property
    def _is_promoted(self) -> bool:
        """Whether threads take sums over from the tensor cores."""
        is_short = str(self.form.left.copy.store.buffer.dtype) in _SHORT_FLOATS
        return is_short and not self.form.has_fast_sums and self.steps > 1

    @cached_property
    def promoted_columns(self) -> int:
        """Columns whose sums threads take over from the tensor cores at a time; 0: they do not."""
        if not self._is_promoted:
            return 0
        room = 2 * (self._most_sums - self.sums)
        widths = range(min(room, self.columns) // 16 * 16, 0, -16)
        return next((width for width in widths if self.columns % width == 0), 16)

    @property
    def depth_steps(self) -> int:
        """Instructions along the sum in one tile."""
        return ROW_BYTES // _STEP_BYTES

    @cached_property
    def instruction(self) -> str:
        """The name of the device function that multiplies."""
        dtype = str(self.form.left.copy.store.buffer.dtype)
        other = str(self.form.right.copy.store.buffer.dtype)
        sums = "s32" if self.form.sums.dtype.is_int else "f32"
        depth = _STEP_BYTES // ir.DType(dtype).itemsize
        turned = f"t{int(not self.left.is_depth_first)}{int(not self.right.is_depth_first)}"
        shape = f"m64n{self.promoted_columns or self.columns}k{depth}"
        return f"tw_wgmma_{shape}_{sums}_{_TYPES[dtype]}_{_TYPES[other]}_{turned}"

    # --- shared memory --------------------------------------------------------------------------

    @cached_property
    def stages(self) -> int:
        """Steps of the sum in shared memory at a time; more hide more of the time a copy takes."""
        if self.form.stages:
            return self.form.stages
        most = _MOST_GATHERED_STAGES if self.gathered else _MOST_STAGES
        return max(2, min(self._room(self.resident_bytes, self.stage_bytes), most))

    def _room(self, resident: int, stage: int) -> int:
        """How many stages fit beside an operand that stays and a part of the results."""
        used = _ATOM + resident + ring_bytes(self.image)
        if self.is_bulk:
            used += self.form.row.extent * self._parts[0] * self.output_dtype.itemsize
        elif self.form.is_streamed:
            used += self.form.row.extent * self.pitch
        return (self.shared_limit - used) // (stage + 16)

    @cached_property
    def image(self) -> StagedImage | None:
        """The image of the left operand, where it is staged ahead of gathering."""
        if self.left.map is not None:
            return None
        size = self.left.operand.copy.store.buffer.dtype.itemsize
        if Gathering(self.left.operand).width() * size >= _WIDE_LOAD:
            return None  # loads are as wide as they can be
        try:
            made = StagedImage.of(self.left.operand)
        except LowerError:
            return None
        return made if made.bytes <= _MOST_IMAGE else None

    @property
    def images(self) -> ImageRing | None:
        """Where images are staged."""
        if self.image is None:
            return None
        return ImageRing(self.image, self.image_offset)

    @cached_property
    def is_resident(self) -> bool:
        """Whether the right operand stays in shared memory: it is the same for all tiles."""
        tiles = self.form.tiles
        if self.tiles <= self.processors or not self.is_bulk or self.form.is_streamed:
            return False  # a block has one tile, or not all steps of each
        analyzer = Analyzer()
        analyzer.bind(tiles.loop_var, ir.Range.from_min_extent(tiles.min, tiles.extent))
        for axis in self.right.operand.copy.axes.values():
            origin = analyzer.simplify(axis.origin)
            if ir.uses_var(origin, lambda used: used is tiles.loop_var):
                return False
        needed = max(_LEAST_STAGES, self.form.stages)
        return self._room(self.steps * self.right.bytes + 8, self.left.bytes) >= needed

    @property
    def stage_bytes(self) -> int:
        """Of the tiles that each step brings."""
        return sum(each.bytes for each in self.passing)

    @property
    def passing(self) -> tuple[OperandMap, ...]:
        """The operands of which each step brings a tile."""
        return (self.left,) if self.is_resident else (self.left, self.right)

    @property
    def resident_offset(self) -> int:
        """Where an operand is that stays."""
        return self.stages * self.stage_bytes

    @property
    def resident_bytes(self) -> int:
        """Of an operand that stays."""
        return self.steps * self.right.bytes if self.is_resident else 0

    @property
    def _tiles_bytes(self) -> int:
        """Of all tiles of operands."""
        return self.resident_offset + self.resident_bytes

    @property
    def output_offset(self) -> int:
        """Where results are put in order before they are written: where tiles were, if no others
        follow."""
        return self._tiles_bytes if self.is_bulk or self.form.is_streamed else 0

    @property
    def image_offset(self) -> int:
        """Where images are staged."""
        return max(self.output_offset + self.output_bytes, self._tiles_bytes)

    @property
    def full_offset(self) -> int:
        """Where the barriers of filled stages are; those of emptied ones follow."""
        return self.image_offset + ring_bytes(self.image)

    @property
    def empty_offset(self) -> int:
        """Where the barriers of emptied stages are."""
        return self.full_offset + 8 * self.stages

    @property
    def bytes(self) -> int:
        """All of it, with room to begin at an atom."""
        return _ATOM + self.resident_barrier + 8 * self.is_resident

    @property
    def resident_barrier(self) -> int:
        """Where the barrier of an operand that stays is."""
        return self.empty_offset + 8 * self.stages

    @property
    def output_dtype(self) -> ir.DType:
        """Of the result."""
        return self.form.output.store.buffer.dtype

    @cached_property
    def _parts(self) -> list[int]:
        """The numbers of columns that can be put in order at a time: of these a tile has a whole
        number, and they of panels."""
        width = ROW_BYTES // self.output_dtype.itemsize // 2
        return [n for n in range(width, self.columns + 1, width) if self.columns % n == 0]

    @cached_property
    def part(self) -> int:
        """The columns that are put in order at a time: as many as there is room for."""
        width = self.output_dtype.itemsize * self.form.row.extent
        used = _ATOM + self.output_offset + 16 * self.stages + 8 * self.is_resident
        used += ring_bytes(self.image)
        fitting = [n for n in self._parts if used + n * width <= self.shared_limit]
        return max(fitting, default=self._parts[0])

    @property
    def output_panel(self) -> int:
        """Columns of a row in the output's part of shared memory."""
        width = ROW_BYTES // self.output_dtype.itemsize
        return width if self.part % width == 0 else width // 2

    @property
    def output_bytes(self) -> int:
        """Of the results that are put in order at a time."""
        rows = self.form.row.extent
        return rows * self.part * self.output_dtype.itemsize if self.is_bulk else rows * self.pitch

    @property
    def pitch(self) -> int:
        """Bytes from a row of sums to the next, where threads write rows: threads that put a pair
        of sums into shared memory do so in different banks."""
        return (self.columns + (8 - self.columns) % 32) * 4

    # --- the way out ----------------------------------------------------------------------------

    @cached_property
    def is_bulk(self) -> bool:
        """Whether bulk copies write the results; else threads do, in whichever order they lie."""
        if self.form.splits > 1 or not can_be_written(self.output_dtype) or not self._parts:
            return False
        try:
            self._output_map(self._parts[0])
        except LowerError:
            return False
        return True

    @cached_property
    def output_map(self) -> TensorMap | None:
        """How bulk copies write the results."""
        return self._output_map(self.output_panel) if self.is_bulk else None

    def _output_map(self, columns: int) -> TensorMap:
        row, column = self.form.output_axes
        return output_map(self.form.output, column, {column: columns, row: self.rows})
