"""The helpers of `tvm.testing`, for tests written for TVM; needs pytest where TVM's does."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.arith import Analyzer
from tilewright.ir import PrimExpr, Range, Var
from tilewright.runtime import Device, cpu
from tilewright.target import Target
from tilewright.testing.compare_before_after import CompareBeforeAfter as CompareBeforeAfter

# --- numbers and expressions --------------------------------------------------------------------


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Both arrays agree within the tolerances; shapes must be the same."""
    found, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Both expressions are provably equal."""
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise ValueError(f"{lhs} and {rhs} are not equal")


def check_bool_expr_is_true(
    bool_expr: PrimExpr, vranges: Mapping[Var, Range], cond: PrimExpr | None = None
) -> None:
    """The expression holds for all values in the ranges where `cond` does."""
    analyzer = Analyzer()
    for var, domain in vranges.items():
        analyzer.bind(var, domain)
    if cond is None:
        holds = analyzer.can_prove(bool_expr)
    else:
        with analyzer.constraint_scope(cond):
            holds = analyzer.can_prove(bool_expr)
    assert holds, f"{bool_expr} cannot be proven"


def get_dtype_range(dtype: str) -> tuple[Any, Any]:
    """The least and the greatest value of a type."""
    kind = np.dtype(dtype)
    info: Any = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    return info.min, info.max


# --- tests as files and processes ---------------------------------------------------------------


def main() -> None:
    """Run the tests of the file that calls this, then end the process."""
    import pytest  # optional

    from tilewright.testing import tvm_plugin  # needs pytest

    caller = inspect.getsourcefile(sys._getframe(1))
    assert caller is not None
    sys.exit(pytest.main([caller, *sys.argv[1:]], plugins=[tvm_plugin]))


def identity_after(x: Any, sleep: float) -> Any:
    """`x`, some seconds later."""
    time.sleep(sleep)
    return x


def terminate_self() -> None:
    """End this process as a crash would."""
    sys.exit(-1)


def strtobool(text: str) -> bool:
    """A truth value in words."""
    word = text.strip().lower()
    if word in ("y", "yes", "t", "true", "on", "1"):
        return True
    if word in ("n", "no", "f", "false", "off", "0", ""):
        return False
    raise ValueError(f"invalid truth value {text!r}")


def llvm_version_major(allow_none: bool = False) -> int:
    """The version of the LLVM that compiles here; there always is one."""
    from llvmlite import binding  # slow to load

    del allow_none
    return int(binding.llvm_version_info[0])


# --- targets ------------------------------------------------------------------------------------


def device_enabled(target: str | Target) -> bool:
    """Whether programs for a target can run here."""
    kind = (Target(target) if isinstance(target, str) else target).kind.name
    return kind in ("llvm", "c")


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that tests run on."""
    return [("llvm", cpu(0))]


def parametrize_targets(*targets: Any) -> Any:
    """Run a test for several targets; for all that are enabled if none is given."""
    import pytest  # optional

    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    chosen = targets or tuple(name for name, _ in enabled_targets())
    cases = [
        pytest.param(
            target,
            marks=pytest.mark.skipif(
                not device_enabled(target), reason=f"{target} cannot run here"
            ),
        )
        for target in chosen
    ]
    return pytest.mark.parametrize("target", cases)


def exclude_targets(*targets: str) -> Any:
    """Do not run a test for these targets."""
    return _remember("tvm_excluded_targets", targets)


def known_failing_targets(*targets: str) -> Any:
    """Expect a test to fail for these targets."""
    return _remember("tvm_known_failing_targets", targets)


def skip_parameterizations(*skip_params: str, reason: str) -> Any:
    """Skip the cases of a test that have these ids."""
    return _remember("tvm_skipped_cases", (skip_params, reason))


def xfail_parameterizations(*xfail_params: str, reason: str, strict: bool = False) -> Any:
    """Expect the cases of a test that have these ids to fail; `strict`: passing is a failure."""
    return _remember("tvm_failing_cases", (xfail_params, reason, strict))


def _remember(name: str, value: Any) -> Callable[[Any], Any]:
    def decorate(func: Any) -> Any:
        setattr(func, name, value)
        return func

    return decorate


# --- fixtures -----------------------------------------------------------------------------------


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A fixture with several values, as a variable of a test file."""
    import pytest  # optional

    if by_dict is not None:
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=list(values), ids=ids)
    def fixture(*_self: Any, request: Any) -> Any:  # in a class it is a method
        return request.param

    return fixture


def parameters(*value_sets: Sequence[Any], ids: Any = None) -> list[Any]:
    """Fixtures that take their values together: `a, b = parameters((1, 2), (3, 4))`."""
    import pytest  # optional

    group = object()  # tells these fixtures from those of another call
    made = []
    for values in zip(*value_sets, strict=True):

        def fixture(*_self: Any, request: Any) -> Any:
            return request.param

        fixture.tvm_group = (group, values, ids)  # type: ignore[attr-defined]
        made.append(pytest.fixture(fixture))
    return made


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture; whether its value is cached makes no difference but of time."""
    import pytest  # optional

    del cache_return_value
    return pytest.fixture() if func is None else pytest.fixture(func)


# --- what a test needs --------------------------------------------------------------------------


class Requirement:
    """Skips tests where something is missing; a decorator, with or without parentheses."""

    def __init__(self, what: str, is_met: Callable[[], bool]) -> None:
        self.what = what
        self.is_met = is_met

    def marks(self) -> list[Any]:
        """The same as marks of pytest."""
        import pytest  # optional

        return [pytest.mark.skipif(not self.is_met(), reason=f"needs {self.what}")]

    def __call__(self, func: Any = None) -> Any:
        if func is None:
            return self
        return functools.reduce(lambda marked, mark: mark(marked), self.marks(), func)


def _never() -> bool:
    return False


def _always() -> bool:
    return True


def _has_features(*features: str) -> Callable[[], bool]:
    return lambda: set(features) <= Target("llvm").features


def requires_package(*packages: str) -> Requirement:
    """Python packages that a test imports."""

    def installed() -> bool:
        return all(importlib.util.find_spec(name) is not None for name in packages)

    return Requirement(" and ".join(packages), installed)


def requires_cuda_compute_version(major_version: int, minor_version: int = 0) -> Requirement:
    """A GPU that can do at least so much."""
    return Requirement(f"a GPU of compute version {major_version}.{minor_version}", _never)


def requires_llvm_minimum_version(major_version: int) -> Requirement:
    """LLVM of at least that version."""

    def is_new_enough() -> bool:
        return llvm_version_major() >= major_version

    return Requirement(f"LLVM {major_version}", is_new_enough)


def requires_nvcc_version(major_version: int, minor_version: int = 0, release: int = 0) -> Any:
    """NVIDIA's compiler of at least that version."""
    return Requirement(f"nvcc {major_version}.{minor_version}.{release}", _never)


requires_llvm = Requirement("llvm", _always)
requires_x86 = Requirement("x86", lambda: platform.machine() in ("x86_64", "AMD64"))
requires_x86_vnni = requires_cascadelake = Requirement("VNNI", _has_features("avx512vnni"))
requires_x86_avx512 = requires_skylake_avx512 = Requirement("AVX-512", _has_features("avx512bw"))
requires_x86_amx = Requirement("AMX", _has_features("amx-int8"))
requires_arm_dot = Requirement("ARM's dot products", _has_features("dotprod"))
requires_aarch64 = Requirement("aarch64", lambda: platform.machine() == "aarch64")
requires_rpc = Requirement("remote procedure calls", _never)
(
    requires_gpu, requires_cuda, requires_cudnn, requires_cublas, requires_nvptx,
    requires_tensorcore, requires_cudagraph, requires_rocm, requires_metal, requires_vulkan,
    requires_opencl, requires_opengl, requires_adreno_opencl_vulkan, requires_hexagon,
    requires_micro, requires_ethosn, requires_ethosu, requires_cmsisnn, requires_corstone300,
    requires_vitis_ai, requires_openclml, requires_mrvl, requires_libtorch, requires_mps,
    requires_aarch64_sve, requires_hopper, requires_adreno_opencl,
) = (
    Requirement(what, _never)
    for what in (
        "a GPU", "CUDA", "cuDNN", "cuBLAS", "NVPTX", "tensor cores", "CUDA graphs", "ROCm",
        "Metal", "Vulkan", "OpenCL", "OpenGL", "OpenCL or Vulkan on Adreno", "Hexagon",
        "microTVM", "Ethos-N", "Ethos-U", "CMSIS-NN", "Corstone-300", "Vitis AI", "OpenCL ML",
        "Marvell's accelerator", "libtorch", "Metal Performance Shaders", "SVE", "a Hopper GPU",
        "OpenCL on Adreno",
    )
)  # fmt: skip
uses_gpu = requires_gpu
skip_if_32bit = Requirement("64 bits", lambda: sys.maxsize > 2**32)
skip_if_wheel_test = Requirement("a checkout", _always)


def slow(func: Any) -> Any:
    """A test that takes long: it is run like any other."""
    return func


def is_ampere_or_newer() -> bool:
    """Whether there is a GPU of that kind."""
    return False
