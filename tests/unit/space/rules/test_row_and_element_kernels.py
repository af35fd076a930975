"""`RowKernels` and `ElementKernels`: what they make of programs, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import ir, te, topi
from tilewright.driver import build
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.gpu_lowering import Arrays, candidates, lower_for_gpu, random_arrays
from tilewright.testing.simt import run
from tilewright.testing.space_generation import generate_design_space
from tilewright.tune import default_schedule

TARGET = Target("nvidia/nvidia-h200")
Exact = Callable[..., Any]


def softmax(m: Any, n: Any, dtype: str = "float32") -> ir.PrimFunc:
    a = te.placeholder((m, n), dtype, name="A")
    return te.create_prim_func([a, topi.nn.softmax(a, axis=-1)])


def exact_softmax(a: Any) -> Any:
    raised = np.exp(a - a.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def layer_norm(m: int, n: int) -> ir.PrimFunc:
    a = te.placeholder((m, n), "float16", name="A")
    gamma, beta = (te.placeholder((n,), "float16", name=name) for name in ("gamma", "beta"))
    return te.create_prim_func([a, gamma, beta, topi.nn.layer_norm(a, gamma, beta, [1])])


def exact_layer_norm(a: Any, gamma: Any, beta: Any) -> Any:
    centred = a - a.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def rms_norm(m: int, n: int) -> ir.PrimFunc:
    a = te.placeholder((m, n), "float16", name="A")
    gamma = te.placeholder((n,), "float16", name="gamma")
    return te.create_prim_func([a, gamma, topi.nn.rms_norm(a, gamma, [1])])


def exact_rms_norm(a: Any, gamma: Any) -> Any:
    return a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-5) * gamma


def of_one(shape: tuple[Any, ...], make: Callable[[Any], Any], dtype: str = "float32") -> Any:
    a = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([a, make(a)])


def after_sum(m: int, n: int) -> ir.PrimFunc:
    """Softmax of a sum, which both reductions read."""
    a, b = (te.placeholder((m, n), name=name) for name in ("A", "B"))
    return te.create_prim_func([a, b, topi.nn.softmax(topi.add(a, b), axis=-1)])


def chain(shape: tuple[int, ...], dtype: str) -> ir.PrimFunc:
    """Bias and ReLU."""
    a, bias = te.placeholder(shape, dtype, name="A"), te.placeholder(shape[-1:], dtype, name="b")
    return te.create_prim_func([a, bias, topi.nn.relu(topi.add(a, bias))])


def thin_product(n: int, k: int, dtype: str, m: int = 1) -> ir.PrimFunc:
    """A linear layer of one row, with a bias and ReLU."""
    x, w, b = (
        te.placeholder(shape, dtype, name=name)
        for name, shape in (("x", (m, k)), ("w", (n, k)), ("b", (n,)))
    )
    return te.create_prim_func([x, w, b, topi.nn.relu(topi.add(topi.nn.dense(x, w), b))])


def exact_thin_product(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w.T + b, 0)


ROWS: dict[str, tuple[ir.PrimFunc, Exact]] = {
    "softmax": (softmax(8, 256), exact_softmax),
    "softmax of halves": (softmax(4, 64, "float16"), exact_softmax),
    "softmax of a sum": (after_sum(4, 128), lambda a, b: exact_softmax(a + b)),
    "threads do not divide rows": (softmax(3, 100), exact_softmax),
    "vectors do not divide rows": (softmax(3, 67), exact_softmax),
    "several warps": (softmax(2, 4096), exact_softmax),
    "long rows": (softmax(32, 32800), exact_softmax),
    "softmax of three axes": (
        of_one((2, 4, 64), lambda a: topi.nn.softmax(a, axis=-1)),
        exact_softmax,
    ),
    "softmax with axes of length one": (
        of_one(
            (8, 64), lambda a: topi.divide(topi.exp(a), topi.sum(topi.exp(a), 1, keepdims=True))
        ),
        exact_softmax,
    ),
    "rows of two axes": (
        of_one((4, 8, 16), lambda a: topi.subtract(a, topi.sum(a, axis=[1, 2], keepdims=True))),
        lambda a: a - a.sum((1, 2), keepdims=True),
    ),
    "layer norm": (layer_norm(8, 768), exact_layer_norm),
    "rms norm": (rms_norm(8, 768), exact_rms_norm),
    "sums": (of_one((8, 256), lambda a: topi.sum(a, axis=1)), lambda a: a.sum(1)),
    "norms": (
        of_one((8, 256), lambda a: topi.sqrt(topi.sum(topi.multiply(a, a), axis=1))),
        lambda a: np.sqrt((a * a).sum(1)),
    ),
    "a matrix times a vector": (thin_product(24, 512, "float16"), exact_thin_product),
    "a matrix times a vector, of odd rows": (thin_product(3, 37, "float32"), exact_thin_product),
    "argmax": (of_one((8, 256), lambda a: topi.argmax(a, axis=1)), lambda a: a.argmax(1)),
}


def scaled(n: int) -> ir.PrimFunc:
    """A vector times a number."""
    a, factor = te.placeholder((n,), name="A"), te.placeholder((), name="factor")
    scaled = te.compute((n,), lambda i: a[i] * factor(), name="B")
    return te.create_prim_func([a, factor, scaled])


ELEMENTS: dict[str, tuple[ir.PrimFunc, Exact]] = {
    "bias and relu": (chain((64, 128), "float32"), lambda a, b: np.maximum(a + b, 0)),
    "halves": (chain((64, 128), "float16"), lambda a, b: np.maximum(a + b, 0)),
    "threads do not divide": (
        chain((7, 52), "float32"),
        lambda a, b: np.maximum(a + b, 0),
    ),
    "vectors do not divide": (
        chain((7, 53), "float32"),
        lambda a, b: np.maximum(a + b, 0),
    ),
    "a number": (scaled(512), lambda a, factor: a * factor),
    "one axis": (of_one((1024,), topi.nn.relu), lambda a: np.maximum(a, 0)),
    "transposed": (of_one((64, 96), lambda a: topi.transpose(a, [1, 0])), lambda a: a.T),
    "transposed and narrowed": (
        of_one((64, 96), lambda a: topi.cast(topi.transpose(a, [1, 0]), "float16")),
        lambda a: a.T,
    ),
    "transposed bytes": (
        of_one((96, 64), lambda a: topi.transpose(a, [1, 0]), "int8"),
        lambda a: a.T,
    ),
    "transposed, rows of even length": (
        of_one((66, 70), lambda a: topi.transpose(a, [1, 0])),
        lambda a: a.T,
    ),
    "tiles do not divide": (of_one((50, 77), lambda a: topi.transpose(a, [1, 0])), lambda a: a.T),
    "transposed neighbours": (
        of_one(
            (33, 64),
            lambda a: te.compute((64, 32), lambda i, j: a[j, i] + a[j + 1, 63 - i], name="B"),
        ),
        lambda a: (a[:-1] + a[1:, ::-1]).T,
    ),
    "transposed sums of neighbours": (
        of_one(
            (32, 65), lambda a: te.compute((64, 32), lambda i, j: a[j, i] + a[j, i + 1], name="B")
        ),
        lambda a: (a[:, :-1] + a[:, 1:]).T,
    ),
    "sums of neighbours": (
        of_one(
            (32, 65), lambda a: te.compute((32, 64), lambda i, j: a[i, j] + a[i, j + 1], name="B")
        ),
        lambda a: a[:, :-1] + a[:, 1:],
    ),
    "copies under a condition": (
        of_one((2, 5, 6, 32), lambda a: topi.nn.pad(a, [0, 1, 1, 0], [0, 1, 1, 0]), "float16"),
        lambda a: np.pad(a, [(0, 0), (1, 1), (1, 1), (0, 0)]),
    ),
    "a constant": (
        of_one((1, 4), lambda a: topi.full_like(a, 3.0)),
        lambda a: np.full_like(a, 3),
    ),
    "one vector": (of_one((1, 4), topi.nn.relu), lambda a: np.maximum(a, 0)),
    "threads do not divide four axes": (
        of_one((2, 14, 14, 20), lambda a: topi.cast(a, "float16")),
        lambda a: a,
    ),
    "transposed halves": (
        of_one((2, 32, 5, 16), lambda a: topi.transpose(a, [0, 2, 3, 1]), "float16"),
        lambda a: a.transpose(0, 2, 3, 1),
    ),
}
PROGRAMS = {**ROWS, **ELEMENTS}


def sketches_of(func: ir.PrimFunc) -> list[Schedule]:
    module = ir.IRModule({"main": func})
    found = list(candidates(module, TARGET, "cuda-kernels", seeds=range(2), count=2))
    assert found
    return found


def check(func: ir.PrimFunc, lowered: ir.IRModule, exact: Exact) -> None:
    arrays: Arrays = random_arrays(func)
    *inputs, _ = [np.copy(array) for array in arrays]
    run(lowered, arrays)
    tolerance = 5e-3 if any(array.dtype == np.float16 for array in arrays) else 1e-5
    wanted = exact(*(array.astype("float64") for array in inputs))
    np.testing.assert_allclose(arrays[-1], wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_candidates_compute_the_program_in_one_kernel(name: str) -> None:
    func, exact = PROGRAMS[name]
    for sch in sketches_of(func):
        blocks = [sref.block for sref in sch.state.infos if sref.parent is not None]
        assert all(TILING_STRUCTURE in block.annotations for block in blocks)
        lowered = lower_for_gpu(sch.mod)
        assert len(lowered.functions) == 2  # the host's and the kernel
        check(func, lowered, exact)


# --- how they compute it ------------------------------------------------------------------------

LARGE = {
    "softmax": softmax(1024, 1024),
    "long softmax": softmax(8192, 4096),
    "longest rows in registers": softmax(256, 32768),
    "layer norm": layer_norm(512, 768),
    "long layer norm": layer_norm(8192, 4096),
    "rms norm": rms_norm(8192, 4096),
    "bias and relu": chain((4096, 4096), "float16"),
    "transposed": of_one((4096, 4096), lambda a: topi.transpose(a, [1, 0])),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_default_kernel_uses_registers_only(name: str) -> None:
    pytest.importorskip("cuda.core", reason="NVRTC is missing: pip install tilewright[cuda]")
    module = build(default_schedule(LARGE[name], TARGET).mod, TARGET)
    (found,) = module.resources.values()
    assert found["spill_stores"] == found["spill_loads"] == found["local_bytes"] == 0


@pytest.mark.parametrize(
    "name", ["softmax", "layer norm", "rms norm", "bias and relu", "transposed"]
)
def test_memory_is_read_and_written_once_in_vectors(name: str) -> None:
    (kernel,) = _kernels(default_schedule(LARGE[name], TARGET))
    loads = [load for load in ir.nodes_of(kernel.body, ir.BufferLoad) if load.buffer.name == "A"]
    assert [load.dtype.bits * load.dtype.lanes for load in loads] == [128]
    output = list(LARGE[name].buffer_map.values())[-1].name
    stores = list(ir.nodes_of(kernel.body, ir.BufferStore))
    written = [store for store in stores if store.buffer.name == output]
    assert [store.value.dtype.bits * store.value.dtype.lanes for store in written] == [128]


def _kernels(sch: Schedule) -> list[ir.PrimFunc]:
    functions = lower_for_gpu(sch.mod).functions.values()
    return [func for func in functions if "calling_conv" in func.attrs]


def test_a_short_row_is_the_work_of_a_part_of_a_warp_and_a_long_one_of_several() -> None:
    for length, most in ((64, 32), (1024, 128), (8192, 512)):
        threads = {_extents(sch)["threadIdx.x"] for sch in sketches_of(softmax(64, length))}
        assert max(threads) <= most
    assert all(length // 64 <= n for n in threads)


def _extents(sch: Schedule) -> dict[str, int]:
    loops = ir.nodes_of(sch.mod["main"].body, ir.For)
    return {
        loop.thread_binding.thread_tag: loop.extent.value
        for loop in loops
        if loop.thread_binding is not None and isinstance(loop.extent, ir.IntImm)
    }


def test_what_comes_before_a_row_is_a_kernel_of_its_own() -> None:
    """A product shares its operands among rows, so it is left to the rules for tiles."""
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    func = te.create_prim_func([a, b, topi.nn.softmax(topi.nn.dense(a, b), axis=-1)])
    sch = default_schedule(func, TARGET)
    assert len(_kernels(sch)) == 2
    assert TILING_STRUCTURE in sch.get_sref(sch.get_block("T_softmax_norm")).block.annotations


def weighted(m: int, n: int) -> ir.PrimFunc:
    """Sums of rows with weights."""
    a, w = te.placeholder((m, n), name="A"), te.placeholder((n,), name="W")
    return te.create_prim_func([a, w, topi.sum(topi.multiply(a, w), axis=1)])


@pytest.mark.parametrize("shape", [(32, 32), (4, 128)])
def test_what_all_rows_share_is_no_row_itself(shape: tuple[int, int]) -> None:
    func = weighted(*shape)
    for sch in sketches_of(func):
        check(func, lower_for_gpu(sch.mod), lambda a, w: (a * w).sum(1))


def mirrored(m: int, n: int) -> ir.PrimFunc:
    """Softmax, and to each element its counterpart from the other end of the row."""
    a = te.placeholder((m, n), name="A")
    norm = topi.nn.softmax(a, axis=-1)
    both = te.compute((m, n), lambda i, j: norm[i, j] + norm[i, n - 1 - j], name="both")
    return te.create_prim_func([a, both])


@pytest.mark.parametrize("shape", [(8, 64), (64, 64)])
def test_elements_that_other_threads_hold_are_not_read_from_registers(
    shape: tuple[int, int],
) -> None:
    func = mirrored(*shape)
    sch = default_schedule(func, TARGET)
    check(func, lower_for_gpu(sch.mod), lambda a: exact_softmax(a) + exact_softmax(a)[:, ::-1])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_softmax_that_is_turned(axis: int) -> None:
    func = of_one((64, 64), lambda a: topi.transpose(topi.nn.softmax(a, axis=axis), [1, 0]))
    exact = {0: lambda a: exact_softmax(a.T), 1: lambda a: exact_softmax(a).T}
    check(func, lower_for_gpu(default_schedule(func, TARGET).mod), exact[axis])


def test_few_long_rows_are_left_to_others() -> None:
    func = of_one((2, 1 << 20), lambda a: topi.sum(a, axis=1))
    (sch,) = generate_design_space("cuda-kernels", ir.IRModule({"main": func}), TARGET)
    blocks = [sref.block for sref in sch.state.infos if sref.parent is not None]
    assert {block.annotations[TILING_STRUCTURE] for block in blocks} == {"loop kernel"}


# --- sizes that are known later -----------------------------------------------------------------

M, N = te.var("m"), te.var("n")
SYMBOLIC: dict[str, tuple[ir.PrimFunc, tuple[Any, ...], Exact]] = {
    "rows": (softmax(M, 256), (M, 256), exact_softmax),
    "lengths of rows": (softmax(8, N), (8, N), exact_softmax),
    "elements": (of_one((M, N), topi.nn.relu), (M, N), lambda a: np.maximum(a, 0)),
    "vectors": (of_one((M, 64), topi.nn.relu), (M, 64), lambda a: np.maximum(a, 0)),
    "tiles": (of_one((M, N), lambda a: topi.transpose(a, [1, 0])), (M, N), lambda a: a.T),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_one_kernel_serves_all_sizes(name: str) -> None:
    func, shape, exact = SYMBOLIC[name]
    lowered = lower_for_gpu(default_schedule(func, TARGET).mod)
    for sizes in ({M: 1, N: 3}, {M: 33, N: 70}, {M: 64, N: 128}):
        fixed = [sizes.get(extent, extent) for extent in shape]
        a = np.random.default_rng(0).normal(size=fixed).astype("float32")
        wanted = exact(a.astype("float64"))
        out = np.zeros(wanted.shape, "float32")
        run(lowered, [a, out], [sizes[v] for v in shape if v in sizes])
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


def kinds_of(func: ir.PrimFunc) -> set[str]:
    """The kinds of kernels that rules make of a program."""
    found = generate_design_space("cuda-kernels", ir.IRModule({"main": func}), TARGET)
    texts = [str(sch.mod) for sch in found]
    return {kind for kind in ("tile kernel", "row kernel") if any(kind in text for text in texts)}


def test_products_of_one_row_are_tried_both_ways() -> None:
    assert kinds_of(thin_product(512, 512, "float16")) == {"tile kernel", "row kernel"}
    assert kinds_of(thin_product(512, 512, "float16", 64)) == {"tile kernel"}
