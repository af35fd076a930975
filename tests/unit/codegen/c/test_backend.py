"""Target kind `c`: C that the compiler of this machine compiles, loaded and run."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.c.backend import CBackend
from tilewright.codegen.host.code_store import open_store
from tilewright.errors import CodegenError, KernelAssertError, OverlapError
from tilewright.lowering import PassContext
from tilewright.runtime.extern_symbols import runtime_symbols
from tilewright.script import tir as T

pytestmark = pytest.mark.usefixtures("c_compiler")


@T.prim_func
def matmul(
    A: T.Buffer((33, 17), "float32"),
    B: T.Buffer((17, 50), "float32"),
    C: T.Buffer((33, 50), "float32"),
):
    for i in T.parallel(33):
        for j, k in T.grid(50, 17):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]


@T.prim_func
def scaled(a: T.handle, factor: T.float16, shift: T.int32, negate: T.bool):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        A[i] = A[i] * T.cast(factor, "float32") + T.cast(shift, "float32")
        if negate:
            A[i] = -A[i]


def _arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((33, 17), (17, 50), (33, 50))
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def test_it_runs_and_is_timed() -> None:
    a, b, c = _arguments()
    module = tw.build(matmul, "c")
    module(a, b, c)
    np.testing.assert_allclose(c, a.astype("float64") @ b, atol=1e-5)
    assert module.artifact is not None
    assert module.artifact.kind == "c"
    assert module.time_evaluator("matmul", number=2)(a, b, c).mean > 0


def test_the_source_is_what_was_compiled() -> None:
    module = tw.build(matmul, "c")
    text = module.get_source()
    assert "int32_t matmul(float *restrict A" in text
    assert "TW_PARALLEL_FOR(matmul_parallel_0, 0, 33" in text
    assert text == module.get_source("c")
    assert "matmul.packed:" in module.get_source("asm")
    with pytest.raises(tw.TilewrightError, match="no source in format 'll'; there are 'c', 'asm'"):
        module.get_source("ll")


def test_scalars_and_sizes() -> None:
    values = np.arange(7, dtype="float32")
    tw.build(scaled, "c")(values, np.float16(1.5), 3, True)
    np.testing.assert_array_equal(values, -(np.arange(7) * 1.5 + 3))


def test_a_failed_assertion_says_its_message() -> None:
    @T.prim_func
    def checked(n: T.int32, A: T.Buffer((4,), "int32")):
        assert n > 0, "n must be positive"
        assert n < 5, "n must be small"
        for i in range(n):
            A[i] = n

    module = tw.build(checked, "c")
    module(2, np.zeros(4, "int32"))
    for wrong, message in ((0, "n must be positive"), (7, "n must be small")):
        with pytest.raises(KernelAssertError, match=rf"^checked\(\): {message}$"):
            module(wrong, np.zeros(4, "int32"))


def test_threads_of_a_nested_parallel_loop() -> None:
    @T.prim_func
    def nested(A: T.Buffer((8, 16), "int32")):
        for i in T.parallel(8):
            for j in T.parallel(16):
                A[i, j] = i * 16 + j

    values = np.zeros((8, 16), "int32")
    tw.build(nested, "c")(values)
    np.testing.assert_array_equal(values, np.arange(128).reshape(8, 16))


@T.prim_func
def calling(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = T.call_extern("float32", "tw_test_plus", A[i])


def test_extern_functions_are_given_by_address() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)
    plus = kind(lambda value: value + 2)
    address = ctypes.cast(plus, ctypes.c_void_p).value
    assert address is not None
    values = np.zeros(4, "float32")
    tw.build(calling, "c", extern_symbols={"tw_test_plus": address})(values)
    assert values.tolist() == [2.0] * 4


def test_overlaps_are_refused_or_compiled_for() -> None:
    @T.prim_func
    def shifted(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = A[i] + 1

    memory = np.arange(9, dtype="int32")
    tw.build(shifted, "c")(memory[:8], memory[1:])
    assert memory.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    distinct = shifted.with_attr("tir.noalias", True)
    with pytest.raises(OverlapError):
        tw.build(distinct, "c")(memory[:8], memory[1:])


def test_an_exported_library_is_called_from_c(tmp_path: Path, c_compiler: str) -> None:
    tw.build(scaled, "c").export_library(tmp_path / "libscaled.so")
    loaded = tw.load_module(tmp_path / "libscaled.so")
    values = np.arange(5, dtype="float32")
    loaded(values, np.float16(2), 1, False)
    np.testing.assert_array_equal(values, np.arange(5) * 2 + 1)
    library = ctypes.CDLL(str(tmp_path / "libscaled.so"))
    header = (tmp_path / "libscaled.h").read_text()
    (name,) = re.findall(r"int32_t (\w*scaled)\(", header)
    half = int(np.float16(2).view("uint16"))
    function = getattr(library, name)
    pointer, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_int64(5)
    assert (
        function(pointer, size, ctypes.c_uint16(half), ctypes.c_int32(0), ctypes.c_bool(True)) == 0
    )
    np.testing.assert_array_equal(values, -(np.arange(5) * 2 + 1) * 2)
    subprocess.run([c_compiler, "-fsyntax-only", str(tmp_path / "libscaled.h")], check=True)


def test_kept_code(tmp_path: Path) -> None:
    store = open_store(tmp_path / "code")
    module = tw.build(matmul, "c")
    assert module.artifact is not None
    CBackend().keep(store, "0" * 64, module.info, module.artifact)
    found = CBackend().recall(store, "0" * 64, runtime_symbols)
    assert found is not None
    assert CBackend().version()


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    message = (
        "target kind 'c' needs a C compiler, but none was found (looked for cc, gcc, clang); "
        "install one, or build for 'llvm', which needs none"
    )
    with pytest.raises(CodegenError, match=f"^{re.escape(message)}$"):
        tw.build(matmul, "c")
    assert "int32_t matmul" in tw.build(matmul, "llvm").get_source("c")


def test_another_machine() -> None:
    with pytest.raises(CodegenError, match="not for 'aarch64-linux-gnu'; build for 'llvm' with"):
        tw.build(matmul, "c -mtriple=aarch64-linux-gnu")


def test_what_the_compiler_says() -> None:
    with pytest.raises(CodegenError, match=r"cannot compile the generated C: .* failed with"):
        tw.build(matmul, "c -mcpu=x86-64 -mattr=+slow-3ops-lea")


def test_stages_of_both_pipelines() -> None:
    stages = tw.build(matmul, "c", stages=True)
    names = [stage.name for stage in stages]
    assert names[-3:] == ["c", "asm", "machine-code"]
    assert names[0] == "input"
    assert len(stages) == len(names)
    own = {step.name for step in CBackend().passes(PassContext(), None)}
    assert set(names[1:-3]) == own
    assert "TileRegisters" not in own
    assert stages.text("c") in str(stages)
    assert stages.artifact.data[:4].hex(" ") == "7f 45 4c 46"
    assert stages.text("machine-code").startswith("00000000  7f 45 4c 46")
    assert "matmul" in stages.after("HostABI")
    with pytest.raises(CodegenError, match="no text 'll'; there are 'c', 'asm', 'machine-code'"):
        stages.text("ll")
    assert [stage.name for stage in tw.build(matmul, "llvm", stages=True)][-4:] == [
        "generated-ll",
        "ll",
        "asm",
        "machine-code",
    ]
