"""All sketches for tensor cores and plain cores become machine code, without spills."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright as tw
from tilewright import ir, te
from tilewright.codegen.cuda import compiler
from tilewright.errors import CodegenError, LowerError
from tilewright.ir.annotation_keys import STREAMED, TILE_SPLITS
from tilewright.lowering.gpu.tile_kernels.tile_form import tile_loops
from tilewright.space.gpu.tile_rule import Way
from tilewright.space.gpu.warp_group_tiling import GATHERING_SHAPES, WarpGroupTiling
from tilewright.testing.tile_programs import H200, convolution, product, sketches_of

WARPS, THREADS = "WarpGroupTiling", "ThreadTiling"
# Bytes; where guarded copies take a register more than several blocks on a processor leave.
SPILLED = {WARPS: 0, THREADS: 8}
HALF, FLOAT = ("float16", "float32"), ("float32", "float32")


@pytest.fixture(autouse=True)
def nvrtc() -> None:
    try:
        compiler.compiler_version()
    except CodegenError as error:
        pytest.skip(str(error))


def dense_and_gelu() -> ir.PrimFunc:
    """A product with a bias and the error function after it."""
    a = te.placeholder((512, 256), "float16", name="A")
    b = te.placeholder((256, 512), "float16", name="B")
    bias = te.placeholder((512,), "float32", name="bias")
    k = te.reduce_axis((0, 256), name="k")
    c = te.compute(
        (512, 512),
        lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="C",
    )
    d = te.compute(c.shape, lambda i, j: c[i, j] + bias[j], name="D")
    root = te.const(0.5**0.5, "float32")
    e = te.compute(c.shape, lambda i, j: d[i, j] * (1 + te.erf(d[i, j] * root)) / 2, name="E")
    f = te.compute(c.shape, lambda i, j: e[i, j].astype("float16"), name="F")
    return te.create_prim_func([a, b, bias, f])


WORKLOADS: dict[str, tuple[str, Callable[[], ir.PrimFunc]]] = {
    "float16": (WARPS, lambda: product((512, 512, 256), HALF, result="float16")),
    "float16, turned": (WARPS, lambda: product((512, 512, 256), HALF, is_turned=True)),
    "float16, odd": (WARPS, lambda: product((100, 72, 40), HALF)),
    "float16, a result of any alignment": (
        WARPS, lambda: product((100, 77, 40), HALF, is_turned=True)),
    "bfloat16": (
        WARPS, lambda: product((512, 512, 256), ("bfloat16", "float32"), result="bfloat16")),
    "float8": (
        WARPS, lambda: product((512, 512, 256), ("float8_e4m3fn", "float32"), is_turned=True)),
    "int8": (WARPS, lambda: product((512, 512, 256), ("int8", "int32"), is_turned=True)),
    "batches": (WARPS, lambda: product((128, 256, 64), HALF, [12], result="float16")),
    "convolution": (
        WARPS, lambda: convolution((2, 28, 28, 128), (3, 3, 128), HALF, padding=1)),
    "few channels": (
        WARPS,
        lambda: convolution((2, 56, 56, 3), (7, 7, 64), HALF, stride=2, padding=3)),
    "32 channels": (WARPS, lambda: convolution((2, 28, 28, 32), (3, 3, 64), HALF, padding=1)),
    "few channels of int8": (
        WARPS, lambda: convolution((2, 28, 28, 3), (3, 3, 64), ("int8", "int32"))),
    "few channels of float8": (
        WARPS, lambda: convolution((2, 28, 28, 16), (3, 3, 64), ("float8_e4m3fn", "float32"))),
    "few channels, a result of any alignment": (
        WARPS, lambda: convolution((2, 28, 28, 3), (3, 3, 67), HALF)),
    "dense and gelu": (WARPS, dense_and_gelu),
    "float32": (THREADS, lambda: product((512, 512, 256), FLOAT)),
    "float64": (THREADS, lambda: product((512, 512, 256), ("float64", "float64"))),
    "float32, odd": (THREADS, lambda: product((100, 77, 33), FLOAT)),
    "float32 convolution": (
        THREADS, lambda: convolution((1, 14, 14, 32), (3, 3, 64), FLOAT)),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_sketches_build(name: str) -> None:
    rule, make = WORKLOADS[name]
    check_builds(make(), rule)


def check_builds(func: ir.PrimFunc, rule: str) -> None:
    """One kernel for each sketch, without spills."""
    sketches = sketches_of(func, rule)
    assert len(sketches) >= 4
    for sketch in sketches:
        module = tw.build(sketch.mod, H200)
        for resources in module.resources.values():
            spilled = {resources[key] for key in ("spill_stores", "spill_loads", "local_bytes")}
            assert max(spilled) <= SPILLED[rule]
            assert 0 < resources["shared_bytes"] <= 232448
        assert module.get_source("cuda").count("__global__") == 1


@pytest.mark.parametrize(
    ("sizes", "dtypes"), [((512, 512, 255), HALF), ((512, 512, 256), ("int8", "int32"))]
)
def test_products_that_gather_build(
    sizes: tuple[int, int, int], dtypes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WarpGroupTiling, "ways", (Way(GATHERING_SHAPES),))
    check_builds(product(sizes, dtypes), WARPS)


WRONG_GPUS = {
    "sm_80": (
        WARPS, HALF,
        "tw_barrier_start(), which the schedule uses, needs sm_90, but the target's 'arch' is "
        "sm_80",
    ),
    "sm_100": (
        WARPS, HALF,
        "tw_wgmma_fence(), which the schedule uses, exists on sm_90a only, but the target's "
        "'arch' is sm_100",
    ),
    "sm_75": (
        THREADS, FLOAT,
        "tw_copy_async_4(), which the schedule uses, needs sm_80, but the target's 'arch' is "
        "sm_75",
    ),
}  # fmt: skip


@pytest.mark.parametrize("arch", WRONG_GPUS)
def test_gpus_without_the_instructions(arch: str) -> None:
    rule, dtypes, message = WRONG_GPUS[arch]
    sketch = sketches_of(product((64, 64, 64), dtypes), rule)[0]
    with pytest.raises(CodegenError) as caught:
        tw.build(sketch.mod, f"cuda -arch={arch}")
    assert str(caught.value) == message


@pytest.mark.parametrize("sizes", [(512, 512, 4096), (500, 504, 4000), (501, 507, 4001)])
@pytest.mark.parametrize("splits", [STREAMED, 1, 2, 8])
def test_tiles_that_blocks_share(sizes: tuple[int, int, int], splits: int) -> None:
    built = 0
    for sketch in sketches_of(product(sizes, HALF, result="float16"), WARPS):
        (loop,) = tile_loops(sketch.mod["main"].body)
        notes = {**loop.annotations, TILE_SPLITS: splits}
        shared = ir.updated(loop, annotations=notes)
        func = sketch.mod["main"]
        func = func.with_body(
            ir.rewrite(func.body, {ir.For: lambda n, old=loop, new=shared: new if n is old else n})  # type: ignore[misc]
        )
        try:
            module = tw.build(func, H200)
        except LowerError as error:  # tiles are drawn for other splits, some are too large
            if not str(error).endswith("bytes of shared memory, 232448 exist"):
                raise
            continue
        built += 1
        for resources in module.resources.values():
            assert not resources["spill_stores"] + resources["local_bytes"]
        text = module.get_source("cuda")
        assert (f"__cluster_dims__({splits}, 1, 1)" in text) == (splits > 1)
        assert ("tw_take_flag(" in text) == (splits == STREAMED)
        assert text.count("__global__") == (3 if sizes[2] % 8 else 1)
    assert built >= 3


@pytest.mark.parametrize("odd", [0, 3])  # bulk copies write columns, or threads
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("is_gathered", [False, True])
def test_sums_are_rounded_after_the_wait_for_them(dtype: str, odd: int, is_gathered: bool) -> None:
    func = product((2048, 2048 + odd, 1024), (dtype, "float32"), result=dtype)
    if is_gathered:
        func = convolution((2, 56, 56, 3), (9, 9, 64 + odd), (dtype, dtype))
    for sketch in sketches_of(func, WARPS)[-2:]:
        try:
            lines = tw.build(sketch.mod, H200).get_source("sass").splitlines()
        except CodegenError as error:
            pytest.skip(str(error))
        wait = next(n for n, line in enumerate(lines) if "DEPBAR.LE gsb0, 0x0" in line)
        last = max(n for n, line in enumerate(lines[:wait]) if "GMMA.64x" in line)
        assert any("F2F" in line for line in lines[wait:])
        assert not any("F2F" in line for line in lines[last:wait])
