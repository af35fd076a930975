"""The form of tile kernels as it is read from TensorIR, and what is refused."""

from __future__ import annotations

import pytest

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import LowerTileKernels
from tilewright.lowering.gpu.tile_kernels.tile_form import (
    TileForm,
    read_tile_form,
    tile_loops,
)
from tilewright.testing.tile_programs import THREAD_FORM, TILE_FORM, tile_func

Changes = tuple[tuple[str, str], ...]
OUTPUT = 'C[vi, vj] = T.Cast("float16", sums[vi, vj])'
COPY = "left[vi, vk] = A[vi, vk]"
PRODUCT = """sums[vi, vj] + T.Cast("float32", left[vi, vk]) * T.Cast(
                        "float32", right[vk, vj]
                    )"""
C_BLOCK = """T.grid(64, 64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])"""
PART_OF_C = """T.grid(64, 32):
            with T.block("C"):
                vi = T.axis.spatial(64, i)
                vj = T.axis.spatial(64, j)"""
STAGES = '"tilewright.tile_stages": 2'
STEPS = "        for k in range(2):\n"
ONLY_63 = "\n                    T.where(i < 63)"
THREADS = '"tilewright.thread_rows": 8, "tilewright.thread_columns": 8'
NOTHING = "    T.evaluate(0)\n"
NOT_A_COPY = "is not a copy; expected `A[...]`, or `T.if_then_else(condition, A[...], 0)`"


def sliced(count: int) -> str:
    return f'"tilewright.thread_slices": {count}'


def summed(a: str, b: str) -> str:
    return f'sums[vi, vj] + T.Cast("float32", {a}) * T.Cast("float32", {b})'


def form_of(text: str, *changes: tuple[str, str]) -> TileForm:
    (loop,) = tile_loops(tile_func(text, changes).body)
    return read_tile_form(loop)


def test_all_parts() -> None:
    form = form_of(TILE_FORM)
    assert (form.stages, form.consumers, form.thread_tile) == (2, 1, None)
    axes = (form.row, form.column, form.depth)
    assert [(a.var.name, a.extent, a.size) for a in axes] == [
        ("vi", 64, 64),
        ("vj", 64, 64),
        ("vk", 64, 128),
    ]
    assert [each.copy.block.name_hint for each in (form.left, form.right)] == ["left", "right"]
    assert [each.row.name for each in (form.left, form.right)] == ["vi", "vj"]
    assert [each.depth.name for each in (form.left, form.right)] == ["vk", "vk"]
    assert form.sums.name == "sums"
    assert [var.name for var in form.output_axes] == ["vi", "vj"]


def test_a_tile_begins_where_the_loops_outside_say() -> None:
    form = form_of(TILE_FORM)
    assert Analyzer().can_prove_equal(form.depth.origin, form.steps.loop_var * 64)


def test_tiles_that_reach_over_the_end() -> None:
    form = form_of(
        TILE_FORM,
        ('A: T.Buffer((64, 128), "float16")', 'A: T.Buffer((63, 128), "float16")'),
        (
            "vi = T.axis.spatial(64, i)",
            "vi = T.axis.spatial(63, i)\n                    T.where(i < 63)",
        ),
    )
    left = form.left.copy.axes[form.left.row]
    assert left.is_divided
    assert (left.extent, left.size) == (64, 63)


def test_factors_in_the_other_order() -> None:
    form = form_of(TILE_FORM, (PRODUCT, summed("right[vk, vj]", "left[vi, vk]")))
    assert (form.left.copy.block.name_hint, form.row.var.name) == ("left", "vi")
    assert (form.right.copy.block.name_hint, form.column.var.name) == ("right", "vj")


def test_annotations() -> None:
    form = form_of(THREAD_FORM)
    assert form.thread_tile == (8, 8)
    consumers = '"tilewright.tile_stages": 0, "tilewright.tile_consumers": 2'
    form = form_of(TILE_FORM, ('"tilewright.tile_stages": 2', consumers))
    assert (form.stages, form.consumers) == (0, 2)


def test_loops_without_the_mark_are_left_alone() -> None:
    func = tile_func(TILE_FORM, [(', annotations={"tilewright.tile_stages": 2}', "")])
    assert not list(tile_loops(func.body))
    assert LowerTileKernels()(ir.as_module(func))["main"].body is func.body


REFUSED: dict[str, tuple[Changes, str]] = {
    "no sums": (
        ((STEPS, f"    {NOTHING}{STEPS}"),),
        "the loop over tiles holds other statements than the sums and the output",
    ),
    "another statement in a step": (
        ((STEPS, f"{STEPS}        {NOTHING}"),),
        "its body has 4 statements, expected two copies and a product",
    ),
    "no block": (
        (("            for i, j in T.grid(64, 64):\n                with T.block(\"left\"):\n"
          "                    vi = T.axis.spatial(64, i)\n"
          "                    vk = T.axis.spatial(128, k * 64 + j)\n"
          "                    left[vi, vk] = A[vi, vk]\n",
          "            for i, j in T.grid(64, 64):\n"
          "                left[i, k * 64 + j] = A[i, k * 64 + j]\n"),),
        "its parts are not single blocks in loops",
    ),
    "two stores": (
        ((COPY, f"{COPY}\n                    left[vi, vk] = T.float16(0)"),),
        "block 'left' does more than one store",
    ),
    "no product": (
        ((PRODUCT, 'sums[vi, vj] + T.Cast("float32", left[vi, vk] + right[vk, vj])'),),
        '`sums[vi, vj] + T.Cast("float32", left[vi, vk] + right[vk, vj])` is not a sum of products '
        "of two operands",
    ),
    "no depth": (
        ((PRODUCT, summed("left[vi, 0]", "right[vk, vj]")),),
        "`left[vi, 0]` is not indexed by an iterator of the sum",
    ),
    "no row": (
        ((PRODUCT, summed("left[0, vk]", "right[vk, vj]")),),
        "`left[0, vk]` is not indexed by one iterator of the result and one of the sum",
    ),
    "operand in memory": (
        ((PRODUCT, summed("A[vi, vk]", "right[vk, vj]")),),
        "A is not copied to shared memory in the same loop",
    ),
    "shifted copy": (
        ((COPY, "left[vi, 127 - vk] = A[vi, vk]"),),
        "a copy writes element `127 - vk`, expected a plain iterator",
    ),
    "two loops in an iterator": (
        (("vk = T.axis.spatial(128, k * 64 + j)", "vk = T.axis.spatial(128, i + j)"),),
        "iterator 'vk' has no constant tile of its own",
    ),
    "sums of one operand": (
        ((PRODUCT, summed("left[vi, vk]", "left[vi, vk]")),),
        "`sums[vi, vj]` is not indexed by an iterator of each operand",
    ),
    "more rows than the product has": (
        (("for i, j in T.grid(64, 64):\n                with T.block(\"left\")",
          "for i, j in T.grid(128, 64):\n                with T.block(\"left\")"),),
        "iterator 'vi' of block 'left' runs over other elements than 'vi' of the product",
    ),
    "another step than that of the product": (
        (("vk = T.axis.spatial(128, k * 64 + i)", "vk = T.axis.spatial(128, 64 - k * 64 + i)"),),
        "iterator 'vk' of block 'right' runs over other elements than 'vk' of the product",
    ),
    "an output of a part": (
        ((C_BLOCK, PART_OF_C),),
        "iterator 'vj' of block 'C' runs over other elements than 'vj' of the product",
    ),
    "a negative number of stages": (
        ((STAGES, STAGES.replace("2", "-1")),),
        "'tilewright.tile_stages' is -1, expected an integer of at least 0",
    ),
    "no consumers": (
        ((STAGES, f'{STAGES}, "tilewright.tile_consumers": 0'),),
        "'tilewright.tile_consumers' is 0, expected an integer of at least 1",
    ),
    "sums that are not used": (
        ((OUTPUT, 'C[vi, vj] = T.float16(1)'),),
        "its output does not use the sums",
    ),
    "sums that are turned over": (
        ((OUTPUT, 'C[vi, vj] = T.Cast("float16", sums[vi, 63 - vj])'),),
        "its output reads the sums at `63 - vj`, expected a plain iterator",
    ),
    "an operand that is computed": (
        ((COPY, "left[vi, vk] = A[vi, vk] + T.float16(1)"),),
        f"`A[vi, vk] + T.float16(1)` {NOT_A_COPY}",
    ),
    "ones instead of zeros": (
        ((COPY, "left[vi, vk] = T.if_then_else(vi < 60, A[vi, vk], T.float16(1))"),),
        f"`T.if_then_else(vi < 60, A[vi, vk], T.float16(1))` {NOT_A_COPY}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    changes, reason = REFUSED[name]
    with pytest.raises(LowerError) as error:
        LowerTileKernels()(ir.as_module(tile_func(TILE_FORM, changes)))
    start = "a loop with 'tilewright.tile_stages' must be a tile kernel, but "
    assert str(error.value) == start + reason


def test_a_symbolic_extent_is_refused() -> None:
    text = TILE_FORM.replace('    A: T.Buffer((64, 128), "float16"),', "    a: T.handle,")
    head = "):\n    sums ="
    text = text.replace(
        '    C: T.Buffer((64, 64), "float16"),\n' + head,
        '    C: T.Buffer((64, 64), "float16"),\n'
        '):\n    n = T.int32()\n    A = T.match_buffer(a, (n, 128), "float16")\n    sums =',
    )
    text = text.replace("vi = T.axis.spatial(64, i)", "vi = T.axis.spatial(n, i)")
    with pytest.raises(LowerError, match="but iterator 'vi' has a symbolic extent"):
        LowerTileKernels()(ir.as_module(tile_func(text)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((OUTPUT.replace("16", "32"), "C[vi, vj] = T.float32(1)"),
         "its output does not use the sums"),
        ((COPY, "left[vi, vk] = A[vi, vk] * T.float32(2)"),
         f"`A[vi, vk] * T.float32(2)` {NOT_A_COPY}"),
        (('"tilewright.thread_rows": 8', '"tilewright.thread_rows": 6'),
         "a thread has 6 x 8 results of float32, expected fours, at most 512 bytes"),
        (('"tilewright.thread_rows": 8', '"tilewright.thread_rows": 32'),
         "a thread has 32 x 8 results of float32, expected fours, at most 512 bytes"),
        (('"tilewright.thread_columns": 8', '"tilewright.thread_columns": 12'),
         "its tile is not a number of warps of 8 x 4 threads"),
        (('"tilewright.thread_rows": 8', '"tilewright.thread_rows": 12'),
         "its tile is not a number of warps of 4 x 8 threads"),
        (('"tilewright.thread_rows": 8', '"tilewright.thread_rows": 8, ' + sliced(3)),
         "3 slices do not divide a step of 64 into even parts, or 8 rows"),
        (('"tilewright.thread_rows": 8', '"tilewright.thread_rows": 4, ' + sliced(8)),
         "8 slices do not divide a step of 64 into even parts, or 4 rows"),
        (('"tilewright.thread_rows": 8', '"tilewright.thread_rows": 8, ' + sliced(8)),
         "8 slices exchange 131072 bytes, at most 101376 are in shared memory"),
    ],
)  # fmt: skip
def test_what_is_refused_of_threads(changes: tuple[str, str], reason: str) -> None:
    with pytest.raises(LowerError) as error:
        LowerTileKernels()(ir.as_module(tile_func(THREAD_FORM, [changes])))
    assert str(error.value).rpartition("must be a tile kernel, but ")[2] == reason


def test_operands_and_sums_on_plain_cores_have_one_type() -> None:
    changes = [('"tilewright.tile_stages": 2', '"tilewright.tile_stages": 2, ' + THREADS)]
    with pytest.raises(LowerError) as error:
        LowerTileKernels()(ir.as_module(tile_func(TILE_FORM, changes)))
    assert str(error.value).endswith(
        "but products of float16 are summed in float32, expected one type of 32 or 64 bits"
    )


def test_more_threads_than_a_block_has() -> None:
    text = THREAD_FORM.replace("(64, 64)", "(512, 64)").replace("((64, 128)", "((512, 128)")
    changes = [
        ("T.axis.spatial(64, i)", "T.axis.spatial(512, i)"),
        ("T.grid(64, 64, 64)", "T.grid(512, 64, 64)"),
        ("T.grid(512, 64):\n                with T.block(\"right\")",
         "T.grid(64, 64):\n                with T.block(\"right\")"),
        ('thread_rows": 8', 'thread_rows": 4'),
        ('thread_columns": 8', 'thread_columns": 4'),
    ]  # fmt: skip
    with pytest.raises(LowerError, match="its tile takes 2048 threads, at most 1024 exist"):
        LowerTileKernels()(ir.as_module(tile_func(text, changes)))
