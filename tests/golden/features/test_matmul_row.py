"""The row of a tiled, vectorised and unrolled matrix product, value by value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tilewright import te
from tilewright.features import PerStoreFeature
from tilewright.ir import IRModule
from tilewright.records import MeasureCandidate
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.conformance.candidates import SmallContext

NONE = [1.0] + [0.0] * 7  # one-hot: no such loop
MIXED = [0.0] * 7 + [1.0]
READ, WRITE_TOO = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
LOOP_REUSE = [1.0, 0.0, 0.0]


@pytest.fixture(scope="module")
def row() -> npt.NDArray[np.float64]:
    a = te.placeholder((512, 512), name="A")
    b = te.placeholder((512, 512), name="B")
    k = te.reduce_axis((0, 512), name="k")
    c = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(IRModule({"main": te.create_prim_func([a, b, c])}))
    i, j, k_loop = sch.get_loops(sch.get_block("C"))
    i_o, i_i = sch.split(i, [None, 16])
    j_o, j_i = sch.split(j, [None, 8])
    sch.reorder(i_o, j_o, k_loop, j_i, i_i)
    sch.vectorize(j_i)
    sch.parallel(i_o)
    sch.parallel(j_o)
    sch.unroll(k_loop)
    context = SmallContext(sch.mod, Target("llvm"))
    (matrix,) = PerStoreFeature().extract_from(context, [MeasureCandidate(sch, ())])
    assert matrix.shape == (1, 164)
    values: npt.NDArray[np.float64] = matrix[0]
    return values


def check(values: npt.NDArray[np.float64], expected: list[float]) -> None:
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


def test_operations(row: npt.NDArray[np.float64]) -> None:
    check(row[:16], [0, 27, 27, 0, 0, 0, 0, 0, 29, 29, 0, 0, 0, 0, 0, 0])


def test_loops(row: npt.NDArray[np.float64]) -> None:
    check(row[16:27], [1.0, 3.169924, 3.169924, *MIXED])
    check(row[27:38], [1.0, 9.002815, 9.002815, *MIXED])
    check(row[38:49], [1.58496, 11.0007, 6.022368, *MIXED])


def test_threads_of_a_cpu(row: npt.NDArray[np.float64]) -> None:
    check(row[49:57], [0.0] + [1.0] * 7)


def test_buffers(row: npt.NDArray[np.float64]) -> None:
    check(
        row[57:75],
        [
            *READ,
            29,
            20,
            27,
            14,
            *LOOP_REUSE,
            4.087463,
            7.0552826,
            3.169925,
            26,
            17,
            24,
            11.0007038,
            9.002815,
        ],
    )
    check(
        row[75:93],
        [
            *WRITE_TOO,
            29,
            20.0000019,
            27,
            14.0000877,
            *LOOP_REUSE,
            7.0112271,
            9.2502985,
            9.0028152,
            20.0000019,
            11.0007038,
            18.0000057,
            5.044394,
            9.0028152,
        ],
    )
    check(
        row[93:111],
        [
            *READ,
            29,
            20.0000019,
            19.0000019,
            14.0000877,
            *LOOP_REUSE,
            1.0,
            3.7004397,
            4.0874629,
            25,
            16.0000229,
            15.0000439,
            10.0014082,
            0,
        ],
    )
    check(row[111:147], [0.0] * 36)


def test_intensity_and_the_rest(row: npt.NDArray[np.float64]) -> None:
    check(
        row[147:157],
        [
            3.812599,
            4.464822,
            4.912349,
            5.253426,
            5.529086,
            5.76043,
            5.959752,
            6.134849,
            6.290977,
            6.431846,
        ],
    )
    check(row[157:164], [20.0000019, 18.0000057, 1.0, 27, 27, 2.5849626, 0])


def test_kinds_of_loops_that_are_not_there() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.5, name="B")
    sch = Schedule(IRModule({"main": te.create_prim_func([a, b])}))
    row = PerStoreFeature().extract(sch.mod, is_gpu=False)[0]
    check(row[16:27], [0.0, 0.0, 0.0, *NONE])
