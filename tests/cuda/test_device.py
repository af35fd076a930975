"""Everything between a plan and a GPU, on a real one: memory, calls, timing, sharing, failures."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.cuda import compiler
from tilewright.errors import ArgumentError, DeviceError, KernelAssertError
from tilewright.native.cuda_driver import cuda_driver
from tilewright.native.cuda_memory import memory_pool
from tilewright.runtime import cuda, load_module, ndarray as nd
from tilewright.runtime.module import Module
from tilewright.target.gpu import full_arch
from tilewright.testing.launched_modules import built, reverse, scale, scale_twice

pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module")
def module() -> Module:
    return built(scale, reverse, scale_twice, target=f"cuda -arch={cuda_driver().arch(0)}")


def on_gpu(values: Any) -> nd.NDArray:
    return nd.array(values, cuda())


def random_floats(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, "float32")


# --- the device ----------------------------------------------------------------------------------


def test_the_device() -> None:
    assert cuda().exist
    cuda().sync()
    driver = cuda_driver()
    print(f"\n{driver.name(0)}, {driver.arch(0)}, driver for CUDA {driver.version}")
    assert not cuda(driver.device_count).exist
    with pytest.raises(ArgumentError, match=f"there is no cuda:{driver.device_count}"):
        nd.empty((3,), "float32", cuda(driver.device_count))


def test_the_target() -> None:
    target = tw.Target("cuda")
    print(f"\n{target}\n{target.gpu}")
    assert target.arch == target.gpu.arch == full_arch(cuda_driver().arch(0))
    assert target.model == target.gpu.model == cuda_driver().name(0)
    assert target.gpu.multiprocessors > 0
    assert target.gpu.bytes_per_second > 1e11
    assert target.gpu.clock_mhz > 500
    assert target.max_shared_memory_per_block <= target.gpu.shared_per_block
    if target.model == "NVIDIA H200":
        named = tw.Target("nvidia/nvidia-h200")
        assert {**named.attrs, "model": target.model} == target.attrs
        assert named.gpu.shared_per_block == target.gpu.shared_per_block
    assert tw.Target(target.export()) == target


# --- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int8", "float8_e4m3fn", "bool"]
)
def test_copies(dtype: str) -> None:
    made = nd.array(random_floats(33, 17) * 2 - 1, cuda(), dtype)
    assert (made.dtype, made.shape, made.device) == (dtype, (33, 17), cuda())
    here = made.numpy()
    assert here.dtype == made.__tilewright_array__.dtype
    np.testing.assert_array_equal(made.copyto(tw.cpu()).numpy(), here)
    made.copyfrom(np.zeros((33, 17)))
    assert not made.numpy().any()
    assert made.__tilewright_array__.address % 256 == 0


def test_copies_on_the_gpu() -> None:
    values = random_floats(1000)
    first, second = on_gpu(values), nd.zeros((1000,), "float32", cuda())
    assert second.copyfrom(first) is second
    np.testing.assert_array_equal(second.numpy(), values)
    np.testing.assert_array_equal(nd.array(first, cuda()).numpy(), values)


def test_large_copies() -> None:
    values = random_floats(1 << 24)
    np.testing.assert_array_equal(on_gpu(values).numpy(), values)


def test_the_pool_gives_memory_back() -> None:
    # Other processes take and give memory of the same GPU meanwhile.
    assert any(pool_gives_memory_back() for _ in range(10))


def pool_gives_memory_back() -> bool:
    pool = memory_pool(0)
    pool.trim()
    free = free_bytes()
    for _ in range(20):
        nd.empty((64 << 20,), "uint8", cuda())
    held = free - free_bytes()
    pool.trim()
    return held <= 128 << 20 and free - free_bytes() <= 16 << 20


def free_bytes() -> int:
    return int(cuda_driver()("cuMemGetInfo")[0])


def test_too_little_memory() -> None:
    with pytest.raises(ArgumentError, match=r"there is no memory for float32\[.*\]: cuda:0 has "):
        nd.empty((1 << 42,), "float32", cuda())
    assert nd.zeros((4,), "float32", cuda()).numpy().tolist() == [0] * 4


# --- functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 999_999])
def test_calls(module: Module, count: int) -> None:
    values = random_floats(count)
    a, b = on_gpu(values), on_gpu(np.full(count, np.nan, "float32"))
    module["scale"](a, b, 2.5)
    np.testing.assert_array_equal(b.numpy(), values * np.float32(2.5))


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_shared_memory_over_48_kb_and_memory_of_a_call(module: Module, times: int) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 30, 4096, "int32")
    turned = values.reshape(8, 512)[:, ::-1].reshape(-1)
    b = nd.zeros((4096,), "int32", cuda())
    module["reverse"](on_gpu(values), b, times)
    expected = np.zeros(4096, "int32") if times == 0 else turned if times % 2 else values
    np.testing.assert_array_equal(b.numpy(), expected)


def test_kernels_that_wait_by_themselves(module: Module) -> None:
    values = random_floats(512)
    b = nd.zeros((512,), "float32", cuda())
    module["scale_twice"](on_gpu(values), b)
    np.testing.assert_array_equal(b.numpy(), values * np.float32(2) * np.float32(3))


def test_an_assertion(module: Module) -> None:
    big = [nd.empty((1_000_000,), "float32", cuda()) for _ in range(2)]
    with pytest.raises(KernelAssertError, match=r"^scale\(\): at most a million elements$"):
        module["scale"](*big, 1.0)


def test_wrong_arrays(module: Module) -> None:
    a = nd.zeros((8,), "float32", cuda())
    with pytest.raises(ArgumentError, match="the array is on cpu, expected it on cuda"):
        module["scale"](a, np.zeros(8, "float32"), 1.0)
    with pytest.raises(ArgumentError, match=r"shape is \[8\], expected 9"):
        module["scale"](nd.zeros((9,), "float32", cuda()), a, 1.0)


def test_threads_of_the_host(module: Module) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(factor: int) -> float:
        a, b = on_gpu(np.ones(1000, "float32")), nd.zeros((1000,), "float32", cuda())
        for _ in range(20):
            module["scale"](a, b, float(factor))
        return float(b.numpy().sum())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(12))) == [1000.0 * factor for factor in range(12)]


# --- timing --------------------------------------------------------------------------------------


def test_timing(module: Module) -> None:
    a, b = (on_gpu(random_floats(900_000)) for _ in range(2))
    once = module.time_evaluator("scale", number=1, repeat=5)(a, b, 1.0)
    many = module.time_evaluator("scale", number=100, repeat=5)(a, b, 1.0)
    row = module.time_evaluator("scale", number=10, min_repeat_ms=20, repeat=3)(a, b, 1.0)
    cold = module.time_evaluator("scale", number=1, repeat=5, flush=True)(a, b, 1.0)
    for name, result in (("once", once), ("many", many), ("row", row), ("cold", cold)):
        print(f"\n{name:5} {result}")
        assert 0 < result.median < 1


def test_timing_of_functions_with_memory_of_their_own(module: Module) -> None:
    arrays = [nd.zeros((4096,), "int32", cuda()) for _ in range(2)]
    assert module.time_evaluator("reverse", number=30, repeat=2)(*arrays, 3).median > 0


# --- files ---------------------------------------------------------------------------------------


def test_export(module: Module, tmp_path: Path) -> None:
    (file,) = module.export_library(tmp_path / "m.cubin")
    a, b = on_gpu(np.arange(100, dtype="float32")), nd.zeros((100,), "float32", cuda())
    load_module(file)["scale"](a, b, 3.0)
    np.testing.assert_array_equal(b.numpy(), np.arange(100) * 3)
    assert ".entry scale_kernel" in module.get_source("ptx")
    if "nvdisasm" in compiler._disassembler():
        assert "scale_kernel" in module.get_source("sass")
    print(f"\n{module.resources}")
    assert module.resources["scale_kernel"]["registers"] > 0


# --- other libraries -----------------------------------------------------------------------------


def test_pytorch(module: Module) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    for factor in (2.0, 3.0):
        module["scale"](x, y, factor)
        torch.testing.assert_close(y, x * factor)
    ours = nd.from_dlpack(x)
    assert ours.__tilewright_array__.address == x.data_ptr()
    back = torch.from_dlpack(nd.array(np.ones(7, "float32"), cuda()))
    assert (back.device.type, back.sum().item()) == ("cuda", 7.0)
    made = nd.array(np.ones(7, "float32"), cuda())
    torch.from_dlpack(made).mul_(3)
    assert made.numpy().tolist() == [3.0] * 7
    start = time.perf_counter()
    for _ in range(1000):
        module["scale"](x, y, 2.0)
    print(f"\na call takes the host {(time.perf_counter() - start) * 1e3:.2f} µs")
    with pytest.raises(ArgumentError, match="not aligned to 16 bytes"):
        module["scale"](x[1:], y[1:], 2.0)
    with pytest.raises(ArgumentError, match="the array is on cpu, expected it on cuda"):
        module["scale"](x.cpu(), y, 2.0)
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.bool):
        given = torch.ones(8, device="cuda").to(dtype)
        assert nd.from_dlpack(given).numpy().astype("float32").tolist() == [1.0] * 8


def test_small_floats_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    given = torch.ones(8, device="cuda").to(torch.float8_e4m3fn)
    assert nd.from_dlpack(given).numpy().astype("float32").tolist() == [1.0] * 8


def test_the_stream_of_pytorch(module: Module) -> None:
    torch = pytest.importorskip("torch")
    x, y = (torch.zeros(900_000, device="cuda") for _ in range(2))
    side = torch.cuda.Stream()
    for round_ in range(50):
        with torch.cuda.stream(side):
            x.fill_(float(round_))
            module["scale"](x, y, 2.0)
            assert float(y[-1]) == 2.0 * round_
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module["scale"](x, y, 3.0)
    x.fill_(4.0)
    graph.replay()
    assert float(y.min()) == float(y.max()) == 12.0


def test_a_graph_outlives_its_module() -> None:
    torch = pytest.importorskip("torch")
    arch = f"cuda -arch={cuda_driver().arch(0)}"
    short_lived = built(scale_twice, target=arch)
    x, y = torch.ones(512, device="cuda"), torch.zeros(512, device="cuda")
    short_lived(x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        short_lived(x, y)
    del short_lived
    gc.collect()
    for _ in range(3):  # each would unload what nobody holds, and use memory that nobody uses
        others = [nd.zeros((512,), "float32", cuda()) for _ in range(2)]
        built(scale_twice, target=arch)(*others)
    x.fill_(2.0)
    graph.replay()
    assert float(y.min()) == float(y.max()) == 12.0


def test_cupy(module: Module) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(1000, dtype="float32")
    y = cupy.zeros_like(x)
    module["scale"](x, y, 2.0)
    np.testing.assert_array_equal(cupy.asnumpy(y), np.arange(1000) * 2.0)
    assert float(cupy.from_dlpack(nd.array(np.ones(5, "float32"), cuda())).sum()) == 5.0


def test_jax(module: Module) -> None:
    code = f"""
import os
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax, jax.numpy as jnp, numpy as np
import tilewright as tw
from tilewright.runtime import cuda, ndarray as nd
from tilewright.testing.launched_modules import built, scale
module = built(scale, target="cuda -arch={cuda_driver().arch(0)}")
x = jnp.arange(1000, dtype=jnp.float32)
x.block_until_ready()
y = nd.zeros((1000,), "float32", cuda())
module(x, y, 2.0)
assert y.numpy().tolist() == (np.arange(1000) * 2.0).tolist()
cuda().sync()
assert float(jax.dlpack.from_dlpack(y).sum()) == 999000.0
"""
    command = [sys.executable, "-c", "import jax"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("JAX is missing")
    subprocess.run([sys.executable, "-c", code], check=True)


# --- failures ------------------------------------------------------------------------------------

CRASH = """
import numpy as np, pytest
from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import cuda_driver
from tilewright.runtime import cuda, ndarray as nd
from tilewright.script import tir as T
from tilewright.testing.launched_modules import built, crash

@T.prim_func
def wide(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    T.evaluate(T.call_packed("crash_kernel", A.data, B.data, 1, 2048))

@T.prim_func
def deep(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    T.evaluate(T.call_packed("reverse_kernel", A.data, B.data, 1, 32, 1000000))

module = built(crash, wide, deep, target="cuda -arch=" + cuda_driver().arch(0))
a, b = (nd.zeros((512,), "float32", cuda()) for _ in range(2))
for name in ("wide", "deep"):
    try:
        module[name](a, b)
    except DeviceError as error:
        assert not error.is_lost
        print(error)
    else:
        raise SystemExit(f"{name} ran")
module["crash"](a, b)
for attempt in range(2):
    try:
        cuda().sync()
    except DeviceError as error:
        assert error.is_lost
        print(error)
    else:
        raise SystemExit("the crash was not seen")
assert nd.zeros((3,)).numpy().tolist() == [0, 0, 0]
"""


def test_failures(tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text(CRASH)
    done = subprocess.run(
        [sys.executable, str(script)], check=False, capture_output=True, text=True
    )
    print(f"\n{done.stdout}{done.stderr}")
    assert done.returncode == 0
    wide, deep, first, second = done.stdout.strip().splitlines()
    assert wide.startswith(
        "crash_kernel cannot be launched with 1 × 1 × 1 blocks of 2048 × 1 × 1 threads: a block "
        "has 2048 threads, "
    )
    assert "a block has 1000000 bytes of shared memory, " in deep
    assert first == second
    assert first.endswith("this process cannot use the GPU any more, start it again")
    assert nd.zeros((4,), "float32", cuda()).numpy().tolist() == [0] * 4


def test_code_for_another_architecture() -> None:
    other = "sm_80" if cuda_driver().arch(0) != "sm_80" else "sm_90a"
    with pytest.raises(DeviceError, match=f"it was compiled for {other}, but cuda:0 is "):
        built(scale, target=f"cuda -arch={other}")["scale"]
