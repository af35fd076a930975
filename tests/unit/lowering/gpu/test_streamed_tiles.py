"""Blocks that take equal shares of the steps of all tiles, and hand sums to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import ALLOW_TF32, STREAMED, TILE_SPLITS, TILE_STAGES
from tilewright.lowering.gpu.tile_kernels.building import loop, run
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout
from tilewright.lowering.gpu.tile_kernels.tile_form import read_tile_form, tile_loops
from tilewright.lowering.gpu.tile_kernels.turns import (
    Rounds,
    SharedSteps,
    Turn,
    Turns,
    turns_of,
)
from tilewright.testing.simt import RaceError
from tilewright.testing.simt.threads import LockstepThreads, Wait
from tilewright.testing.tile_kernel_runs import (
    convolved,
    hopper,
    ordered_product,
    results,
    tile_kernel,
    with_calls,
)
from tilewright.testing.tile_programs import TILE_FORM, convolution, tile_func

F16, HALF = ("float16", "float32", "float32"), ("float16", "float32", "float16")
INT8, E4M3 = ("int8", "int32", "int32"), ("float8_e4m3fn", "float32", "float32")
NOTES = {TILE_SPLITS: STREAMED, TILE_STAGES: 2}


def streamed(
    func: ir.PrimFunc, processors: int, sketch: int = -1, notes: dict[str, int] = NOTES
) -> ir.IRModule:
    module = tile_kernel(func, hopper(processors), sketch, annotations=notes)
    assert "tw_take_flag" in str(module)
    return module


# --- which steps each block does -----------------------------------------------------------------


def layout_of(tiles: int, steps: int) -> GroupLayout:
    """A kernel with so many tiles and steps; nothing else of it matters."""
    stages = '"tilewright.tile_stages": 2'
    func = tile_func(
        TILE_FORM,
        [
            (stages, f'{stages}, "{TILE_SPLITS}": {STREAMED}'),
            ("1, thread", f"{tiles}, thread"),
            ("for k in range(2)", f"for k in range({steps})"),
        ],
    )
    (loop,) = tile_loops(func.body)
    return GroupLayout.of(read_tile_form(loop), 232448)


class Recorder(LockstepThreads):
    """Runs the turns of one block and notes them."""

    def __init__(self) -> None:
        super().__init__({"threadIdx.x": np.zeros(1, np.int64)}, 1)
        self.turns: list[tuple[int, ...]] = []

    def evaluate(self, call: ir.Call, name: str) -> Iterator[Wait]:
        self.turns.append(tuple(int(self.value(arg)) for arg in call.args[1:]))
        yield from ()


def turns_of_block(turns: Turns, block: int) -> dict[tuple[int, ...], list[int]]:
    """The steps by tile, first step, number of steps and earlier uses of stages."""
    var, recorder = ir.Var("block", ir.INT32), Recorder()

    def note(turn: Turn) -> ir.Stmt:
        def one(step: ir.Var) -> ir.Stmt:
            return run("note", turn.tile, turn.first, turn.steps, turn.uses, turn.place(step))

        return loop("step", turn.steps, one)

    recorder.bind({var: block})
    assert not [*recorder.steps(turns.each(var, note))]
    found: dict[tuple[int, ...], list[int]] = {}
    for *turn, place in recorder.turns:
        found.setdefault(tuple(turn), []).append(place)
    return found


@pytest.mark.parametrize(
    ("tiles", "steps", "blocks"),
    [(3, 7, 5), (1, 9, 4), (7, 3, 5), (23, 4, 5), (6, 5, 4), (2, 2, 4), (9, 16, 8), (5, 1, 4)],
)
def test_shares_are_equal_and_cover_all_steps(tiles: int, steps: int, blocks: int) -> None:
    turns = turns_of(layout_of(tiles, steps), blocks)
    assert isinstance(turns, SharedSteps)
    done, given = Counter[tuple[int, int]](), dict[int, int]()
    for block in range(blocks):
        uses = 0
        found = turns_of_block(turns, block)
        for number, ((tile, first, count, before), places) in enumerate(found.items()):
            assert count > 0
            assert before == uses
            uses += count
            done.update((tile, place) for place in places)
            assert sorted(places) == [*range(first, first + count)]
            if count == steps:  # in time with blocks that began with the first step of a tile
                assert places[0] == before % steps
            if first + count < steps:
                assert number == 0, "only what a block does first is given away"
                given[block] = tile
            elif first > 0:  # the others of this tile are the blocks just before
                block_of = turns.block_of(ir.const(tile * steps))
                first_giver = ir.constant_value(Analyzer().simplify(block_of))
                assert isinstance(first_giver, int)
                assert [given.pop(giver) for giver in range(first_giver, block)] == [tile] * (
                    block - first_giver
                )
        assert uses in (tiles * steps // blocks, -(-tiles * steps // blocks))
    assert not given
    assert done == Counter((tile, step) for tile in range(tiles) for step in range(steps))


def test_tiles_that_blocks_can_share_evenly_stay_whole() -> None:
    assert isinstance(turns_of(layout_of(8, 3), 4), Rounds)


# --- results -------------------------------------------------------------------------------------


def check(func: ir.PrimFunc, module: ir.IRModule, wanted: Callable[..., Any], seed: int) -> None:
    found, arrays = results(func, module, seed)
    exact = wanted(*arrays)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-3 * abs(exact).max())


@pytest.mark.parametrize(
    ("sizes", "dtypes", "processors", "sketch"),
    [
        ((72, 40, 328), F16, 5, 0),
        ((200, 64, 200), HALF, 5, 3),  # two groups of warps; rounds of whole tiles
        ((40, 72, 520), INT8, 4, 1),
        ((64, 40, 400), E4M3, 3, -1),  # threads take sums over
        ((33, 35, 310), HALF, 3, -1),  # threads write results of any alignment
    ],
    ids=str,
)
def test_products(
    sizes: tuple[int, int, int], dtypes: tuple[str, ...], processors: int, sketch: int
) -> None:
    func = ordered_product(sizes, dtypes, "nt", bias=True)
    module = streamed(func, processors, sketch)
    check(func, module, lambda a, b, c: np.maximum(a @ b.T + c, 0), seed=5 + sketch)


def test_tf32_and_packing() -> None:
    func = ordered_product((72, 48, 136), ("float32",) * 3, "nn").with_attr(ALLOW_TF32, True)
    check(func, streamed(func, 3), lambda a, b: a @ b, seed=3)


def test_gathered_windows() -> None:
    func = convolution((1, 9, 10, 3), (9, 9, 32), ("float16", "float32"), padding=4)
    check(func, streamed(func, 3, 0), lambda x, w: convolved(x, w, 1, 4), seed=1)


# --- order ---------------------------------------------------------------------------------------

FUNC = ordered_product((64, 32, 640), F16)


@pytest.fixture(scope="module")
def kernel() -> ir.IRModule:
    """Three blocks share one tile."""
    return streamed(FUNC, 3)


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_blocks_gives_the_same_bits(kernel: ir.IRModule, seed: int) -> None:
    first, _ = results(FUNC, kernel, 9)
    again, _ = results(FUNC, kernel, seed)
    np.testing.assert_array_equal(first, again)


def run_often(module: ir.IRModule) -> None:
    for seed in range(6):
        results(FUNC, module, seed)


def left_out(which: int) -> Callable[[ir.Call, int], ir.Call | None]:
    return lambda call, number: None if number == which else call


@pytest.mark.parametrize(
    ("name", "which", "message"),
    [
        ("tw_take_flag", 0, "is read before it is stored|no flag was put after|has not met who"),
        ("tw_put_flag", 0, "nobody can go on: .* waits for flag 0"),
        ("tw_give_sums_f32", 0, "sum [0-9]+ is read before it is stored"),
        # Barriers in the order of the text: who takes, the way out (2), who gives.
        ("tw_named_barrier", 0, "is read by a thread that has not met who found its flag"),
        ("tw_named_barrier", 3, "is read, but no flag was put after it was stored"),
    ],
)
def test_faults_are_noticed(kernel: ir.IRModule, name: str, which: int, message: str) -> None:
    faulty = with_calls(kernel, name, left_out(which))
    with pytest.raises(RaceError, match=message):
        run_often(faulty)


# --- what cannot be shared -----------------------------------------------------------------------


def test_too_many_steps() -> None:
    with pytest.raises(LowerError) as caught:
        layout_of(1 << 16, 1 << 9)
    assert str(caught.value) == (
        "a loop with 'tilewright.tile_stages' must be a tile kernel, but 65536 tiles of 512 steps "
        "are too many to share"
    )
