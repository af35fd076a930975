"""Sizes of a tile kernel: threads, registers, and who lies where in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilewright import ir
from tilewright.lowering.gpu.tile_kernels.tensor_maps import ROW_BYTES, OperandMap, operand_map
from tilewright.lowering.gpu.tile_kernels.tile_form import TileForm, refused

WARP_GROUP = 128  # threads that run `wgmma` together
MATRIX_ROWS = 64  # of one `wgmma`
_STEP_BYTES = 32  # of the sum, in one `wgmma`
_ATOM = 1024  # bytes: tiles begin at multiples
_MOST_STAGES = 8
# Registers of the threads that fetch, and of those that multiply, by the number of groups of these.
_REGISTERS = {1: (40, 232), 2: (40, 232), 3: (32, 160)}
_TYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
}
# Types of operands that can be multiplied with each other, and that of their sums.
_MULTIPLIED = (
    ({"float16"}, "float32"),
    ({"bfloat16"}, "float32"),
    ({"float8_e4m3fn", "float8_e5m2"}, "float32"),
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

    @staticmethod
    def of(form: TileForm, shared_limit: int) -> GroupLayout:
        """The sizes for a form; refused where no such kernel exists."""
        made = GroupLayout(
            form,
            operand_map(form.left, "left_map"),
            operand_map(form.right, "right_map"),
            shared_limit,
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
        if form.row.extent % (MATRIX_ROWS * form.consumers):
            raise refused(f"{form.row.extent} rows are not 64 for each of {form.consumers} groups")
        if form.column.extent % 16 or not 16 <= form.column.extent <= 256:
            raise refused(f"it has {form.column.extent} columns, expected 16 to 256 in steps of 16")
        self._check_types()
        if self.sums > 160:
            raise refused(f"each thread would have {self.sums} sums in registers, at most 160 fit")
        if self.bytes > self.shared_limit:
            raise refused(
                f"it needs {self.bytes} bytes of shared memory, {self.shared_limit} exist"
            )

    def _check_types(self) -> None:
        operands = [str(each.copy.store.buffer.dtype) for each in (self.form.left, self.form.right)]
        sums = str(self.form.sums.dtype)
        if not any({*operands} <= known and sums == total for known, total in _MULTIPLIED):
            raise refused(
                f"there is no instruction for {operands[0]} and {operands[1]} with sums of {sums}"
            )
        dtype = self.output_dtype
        if not can_be_written(dtype):
            raise refused(f"results of {dtype!s} cannot be written by bulk copies")
        if not self._parts:
            raise refused(f"{self.columns} columns of {dtype!s} are not whole rows of 64 bytes")

    # --- threads and registers ------------------------------------------------------------------

    @property
    def threads(self) -> int:
        """Of a block: the groups that multiply, and one that fetches."""
        return WARP_GROUP * (self.form.consumers + 1)

    @property
    def registers(self) -> tuple[int, int]:
        """Of a thread that fetches, and of one that multiplies."""
        return _REGISTERS[self.form.consumers]

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
        shape = f"m64n{self.columns}k{depth}"
        return f"tw_wgmma_{shape}_{sums}_{_TYPES[dtype]}_{_TYPES[other]}_{turned}"

    # --- shared memory --------------------------------------------------------------------------

    @cached_property
    def stages(self) -> int:
        """Steps of the sum in shared memory at a time; more hide more of the time a copy takes."""
        if self.form.stages:
            return self.form.stages
        least = _ATOM + self.form.row.extent * self._parts[0] * self.output_dtype.itemsize
        room = (self.shared_limit - least) // (self.stage_bytes + 16)
        return max(2, min(room, _MOST_STAGES))

    @property
    def left_bytes(self) -> int:
        """Of a tile of the left operand."""
        return self.form.row.extent * ROW_BYTES

    @property
    def stage_bytes(self) -> int:
        """Of the tiles of both operands."""
        return self.left_bytes + self.columns * ROW_BYTES

    @property
    def output_offset(self) -> int:
        """Where results are put in order before they are written."""
        return self.stages * self.stage_bytes

    @property
    def full_offset(self) -> int:
        """Where the barriers of filled stages are; those of emptied ones follow."""
        return self.output_offset + self.output_bytes

    @property
    def empty_offset(self) -> int:
        """Where the barriers of emptied stages are."""
        return self.full_offset + 8 * self.stages

    @property
    def bytes(self) -> int:
        """All of it, with room to begin at an atom."""
        return _ATOM + self.empty_offset + 8 * self.stages

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
        used = _ATOM + self.output_offset + 16 * self.stages
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
        return self.form.row.extent * self.part * self.output_dtype.itemsize
