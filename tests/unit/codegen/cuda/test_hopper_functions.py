"""Device functions for Hopper: each compiles, and unknown names are not ours."""

from __future__ import annotations

import re

import pytest

from tilewright.codegen.cuda import compiler
from tilewright.codegen.cuda.compiler import compile_kernels
from tilewright.codegen.cuda.hopper_functions import MAP_TYPE, device_function
from tilewright.errors import CodegenError

PLAIN = [
    "tw_barrier_start", "tw_barrier_expect", "tw_barrier_arrive", "tw_barrier_wait",
    "tw_fence_barriers", "tw_fence_async_shared", "tw_named_barrier", "tw_prefetch_map",
    "tw_wait_for_previous_grid", "tw_launch_next_grid", "tw_wgmma_fence", "tw_wgmma_commit",
    "tw_copy_commit", "tw_bulk_commit", "tw_load_windows", "tw_store_matrices",
    "tw_store_pair_f32", "tw_store_pair_s32", "tw_pack_f16", "tw_pack_bf16", "tw_shared_address",
    "tw_warp_of_thread", "tw_matrix_descriptor", "tw_copy_async_4", "tw_copy_async_8",
    "tw_copy_async_16", "tw_copy_wait_0", "tw_copy_wait_2", "tw_wgmma_wait_0", "tw_wgmma_wait_1",
    "tw_wgmma_wait_0_for_32", "tw_wgmma_wait_1_for_64",
    "tw_bulk_wait_0", "tw_bulk_wait_read_0", "tw_registers_inc_232", "tw_registers_dec_40",
    "tw_settled", "tw_kept",
    "tw_cluster_barrier", "tw_load_own_1_f32", "tw_load_own_4_s32", "tw_load_far_1_s32",
    "tw_load_far_4_f32",
]  # fmt: skip
GATHERS = [
    "tw_warp_sync", "tw_store_words",
    *(f"tw_{way}_{size}" for way in ("gather", "take") for size in (1, 2, 4, 8, 16)),
]  # fmt: skip
COPIES = [f"tw_{way}_{rank}d" for way in ("load", "store") for rank in range(1, 6)]
MULTIPLICATIONS = [
    *(f"tw_wgmma_m64n{n}k16_f32_{t}_{t}_t{turned}"
      for n in (16, 64, 256) for t in ("f16", "bf16") for turned in ("00", "01", "10", "11")),
    *(f"tw_wgmma_m64n{n}k32_f32_{t}_{t}_t00" for n in (32, 128) for t in ("e4m3", "e5m2")),
    "tw_wgmma_m64n64k32_f32_e4m3_e5m2_t00",
    *(f"tw_wgmma_m64n{n}k8_f32_tf32_tf32_t00" for n in (32, 256)),
    *(f"tw_wgmma_m64n{n}k32_s32_s8_s8_t00" for n in (32, 256)),
    "tw_wgmma_m64n64k32_s32_u8_s8_t00",
]  # fmt: skip
ARGUMENTS = {
    "unsigned int": "n",
    "unsigned long long": "wide",
    "int": "(int)n",
    "short": "(short)n",
    "float": "x",
    "float*": "sums",
    "int*": "whole",
    "unsigned int*": "(unsigned int*)whole",
    "void*": "out",
    "const void*": "out",
    "const tw_tensor_map&": "map",
}


@pytest.fixture
def nvrtc() -> None:
    try:
        compiler.compiler_version()
    except CodegenError as error:
        pytest.skip(str(error))


def caller(names: list[str]) -> str:
    """A kernel for each function that calls it."""
    texts = [MAP_TYPE]
    for name in names:
        text = device_function(name)
        assert text is not None
        match = re.search(rf"{name}\(([^)]*)\)", text)
        assert match is not None
        parameters = [part.strip().rpartition(" ")[0] for part in match[1].split(",") if part]
        call = f"{name}({', '.join(ARGUMENTS[kind] for kind in parameters)})"
        texts.append(f"""{text}
extern "C" __global__ void __launch_bounds__(128, 1) call_{name}(
    void* out, unsigned int n, unsigned long long wide, float x,
    const __grid_constant__ tw_tensor_map map) {{
  float sums[128] = {{0}};
  int whole[128] = {{0}};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  {call};
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 128; ++i) ((float*)out)[i * 128 + threadIdx.x] = sums[i] + whole[i];
}}
""")
    return "".join(texts)


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(
    "names",
    [PLAIN, COPIES, GATHERS, MULTIPLICATIONS],
    ids=["plain", "copies", "gathers", "wgmma"],
)
def test_all_compile(names: list[str]) -> None:
    made = compile_kernels(caller(names), "sm_90a")
    assert set(made.resources) == {f"call_{name}" for name in names}


@pytest.mark.parametrize(
    "name",
    ["tw_nothing", "tw_load_6d", "tw_copy_async_2", "tw_wgmma_m64n64k16_f16_f16_f16_t00", "f"],
)
def test_names_that_are_not_ours(name: str) -> None:
    assert device_function(name) is None


def test_a_wait_that_never_ends_is_an_error() -> None:
    assert "trap;" in str(device_function("tw_barrier_wait"))


@pytest.mark.usefixtures("nvrtc")
def test_serialised_matrix_instructions_are_an_error() -> None:
    name = "tw_wgmma_m64n16k16_f32_f16_f16_t00"
    functions = [device_function(n) for n in (name, "tw_wgmma_fence", "tw_wgmma_commit")]
    source = f"""{"".join(map(str, functions))}
extern "C" __global__ void f(
    float* out, unsigned long long left, unsigned long long right, int n) {{
  float sums[8] = {{0}};
  for (int i = 0; i < n; ++i) {{
    tw_wgmma_fence();
    {name}(sums, left, right, 1);
    tw_wgmma_commit();
    sums[0] += out[i];
  }}
  for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = sums[i];
}}
"""
    with pytest.raises(CodegenError) as error:
        compile_kernels(source, "sm_90a")
    message = str(error.value)
    assert message.startswith(
        "matrix instructions of the generated CUDA for sm_90a would run one after another: "
    )
    assert "in function 'f' (C75" in message
    assert message.endswith("); wait for their sums before using them")
