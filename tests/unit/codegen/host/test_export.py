"""Exported libraries: called from C, from ctypes, and loaded again."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.codegen.host import c_names
from tilewright.codegen.host.library_file import read_description, seal
from tilewright.codegen.module_info import FunctionInfo, ModuleInfo
from tilewright.driver import build
from tilewright.errors import ArgumentError, KernelAssertError, RuntimeFailure
from tilewright.runtime import threads
from tilewright.runtime.loading import load_module
from tilewright.runtime.module import Module
from tilewright.runtime.registry import register_func, remove_global_func
from tilewright.script import from_source, tir as T


@pytest.fixture(scope="module")
def matmul() -> Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int32()
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (16, 8), "float32")
        C = T.match_buffer(c, (n, 8), "float32")
        assert n % 2 == 0, "n must be even"
        for i in T.parallel(n):
            for j in range(8):
                C[i, j] = T.float32(0)
                for k in range(16):
                    C[i, j] = C[i, j] + A[i, k] * B[k, j]

    return build(main)


@pytest.fixture(scope="module")
def library(matmul: Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "matmul.so"
    written = matmul.export_library(path)
    assert [file.name for file in written] == ["matmul.so", "matmul.h", "matmul_example.c"]
    return path


def operands(n: int = 4) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 5, (n, 16)).astype(np.float32)
    b = rng.integers(0, 5, (16, 8)).astype(np.float32)
    return a, b, np.zeros((n, 8), np.float32)


# --- load_module --------------------------------------------------------------------------------


def test_a_loaded_module_does_the_same(matmul: Module, library: Path) -> None:
    loaded = load_module(library)
    a, b, c = operands()
    loaded(a, b, c)
    assert (c == a @ b).all()
    assert loaded.info == matmul.info
    assert repr(loaded["main"]) == repr(matmul["main"])
    assert loaded.time_evaluator("main", number=2, repeat=2)(a, b, c).mean > 0


def test_a_loaded_module_checks_the_same(library: Path) -> None:
    loaded = load_module(str(library))
    a, b, c = operands()
    with pytest.raises(
        ArgumentError, match=r"argument 2 \(C\): shape is \[3, 8\], expected 4 \(n\)"
    ):
        loaded(a, b, c[:3])
    with pytest.raises(ArgumentError, match="overlaps argument 0"):
        loaded(a, b, a.reshape(-1)[:32].reshape(4, 8))
    with pytest.raises(KernelAssertError, match=r"^main\(\): n must be even$"):
        loaded(*operands(3))


def test_a_loaded_module_in_a_fresh_process(library: Path) -> None:
    code = f"""
import numpy as np
from tilewright.runtime import load_module
a, b, c = np.ones((6, 16), "float32"), np.ones((16, 8), "float32"), np.zeros((6, 8), "float32")
load_module({str(library)!r})(a, b, c)
print(c.sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("768.0\n", "")


def test_what_a_loaded_module_cannot_do(library: Path, tmp_path: Path) -> None:
    loaded = load_module(library)
    with pytest.raises(RuntimeFailure) as caught:
        loaded.get_source("ll")
    assert str(caught.value) == (
        "a module loaded from a library has no source; matmul.so holds machine code only"
    )
    with pytest.raises(
        RuntimeFailure, match=r"cannot export x\.so: the module was loaded from a lib"
    ):
        loaded.export_library(tmp_path / "x.so")


def test_the_pool_of_a_library_follows_ours(library: Path) -> None:
    loaded: Any = load_module(library)
    count = ctypes.CFUNCTYPE(ctypes.c_int32)(loaded._library["tw_num_threads"])
    assert count() == threads.num_threads()
    with threads.use_threads(3):
        assert count() == 3
    assert count() == threads.num_threads()


def test_exporting_over_a_library_that_is_in_use(matmul: Module, tmp_path: Path) -> None:
    path = tmp_path / "again.so"
    matmul.export_library(path)
    first = load_module(path)
    for _ in range(3):
        matmul.export_library(path)
        for module in (first, load_module(path)):
            a, b, c = operands()
            module(a, b, c)
            assert (c == a @ b).all()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "again.h",
        "again.so",
        "again_example.c",
    ]


# --- C ------------------------------------------------------------------------------------------


def test_a_fresh_process_without_tilewright(library: Path) -> None:
    code = f"""
import ctypes
library = ctypes.CDLL({str(library)!r})
library.tw_set_num_threads(2)
numbers = lambda count, value: (ctypes.c_float * count)(*[value] * count)
a, b, c = numbers(64, 2), numbers(128, 3), numbers(32, 0)
print(library.matmul_main(a, ctypes.c_int32(4), b, c), c[0], c[31], library.matmul_num_threads())
print(library.matmul_main(a, ctypes.c_int32(3), b, c))
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0 96.0 96.0 2\n1\n", "")


HEADER = """\
/* Every function returns a status:
 *   0  all went well
 *   1  n must be even
 * Arrays are row-major and compact unless strides are given; an array that is written
 * must not overlap another one. */

/*
 * A: float32[n, 16], read
 * B: float32[16, 8], read
 * C: float32[n, 8], read and written
 * n: shape 0 of A
 */
int32_t matmul_main(const float *A, int32_t n, const float *B, float *C);
"""


def test_the_header_explains_itself(library: Path) -> None:
    text = library.with_suffix(".h").read_text()
    assert text.startswith("/* matmul: compiled by Tilewright ")
    assert HEADER in text
    assert "void tw_set_num_threads(int32_t count);" in text


def run_example(library: Path, compiler: str) -> str:
    stem = library.stem
    warnings = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    link = [f"./{library.name}", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(
        [compiler, *warnings, f"{stem}_example.c", *link, "-o", stem],
        cwd=library.parent,
        check=True,
    )
    done = subprocess.run(
        [library.parent / stem], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_the_example_compiles_and_runs(library: Path, c_compiler: str) -> None:
    # Row 0 of A and column 0 of B, filled with i % 7 as the example does.
    a, b = np.arange(16 * 16) % 7, np.arange(16 * 8) % 7
    expected = int(a[:16] @ b.reshape(16, 8)[:, 0])
    assert run_example(library, c_compiler) == f"matmul_main: status 0\n  C[0] = {expected}\n"


def test_the_header_is_c_plus_plus_too(library: Path, c_compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "check.cpp"
    source.write_text(f'#include "{library.with_suffix(".h")}"\n')
    probe = subprocess.run(
        [c_compiler, "-x", "c++", "-fsyntax-only", "-Wall", "-Werror", source],
        capture_output=True,
        text=True,
        check=False,
    )
    if "cc1plus" in probe.stderr:
        pytest.skip("the compiler speaks no C++")
    assert probe.returncode == 0, probe.stderr


EVERY_TYPE = """
@T.prim_func
def kernel(
    h: T.float16, b: T.bfloat16, d: T.float64, flag: T.bool, i: T.int8, u: T.uint16,
    H: T.Buffer((2,), "float16"), B: T.Buffer((2,), "bfloat16"), D: T.Buffer((4,), "float64"),
):
    H[0] = h
    B[0] = b
    D[0] = d
    D[1] = T.Select(flag, T.float64(1), T.float64(2))
    D[2] = T.Cast("float64", i)
    D[3] = T.Cast("float64", u)
"""


def test_scalars_of_every_type_cross_the_boundary(tmp_path: Path, c_compiler: str) -> None:
    path = tmp_path / "types.so"
    build(from_source(EVERY_TYPE)).export_library(path)
    header = path.with_suffix(".h").read_text()
    assert (
        "int32_t types_kernel(uint16_t h, uint16_t b, double d, bool flag, int8_t i, uint16_t u, "
        "uint16_t *H, uint16_t *B, double *D);" in header
    )
    assert " * b: the bits of a bfloat16" in header
    run_example(path, c_compiler)
    one, two = np.zeros(2, np.float16), np.zeros(2, ml_dtypes.bfloat16)
    many = np.zeros(4)
    call = ctypes.CDLL(str(path)).types_kernel
    short, real, byte = ctypes.c_uint16, ctypes.c_double, ctypes.c_int8
    pointer = ctypes.c_void_p
    call.argtypes = [short, short, real, ctypes.c_bool, byte, short, pointer, pointer, pointer]
    bits = int(np.float16(1.5).view(np.uint16)), int(ml_dtypes.bfloat16(2.5).view(np.uint16))
    pointers = [array.ctypes.data for array in (one, two, many)]
    assert call(*bits, 0.1, True, -7, 65535, *pointers) == 0
    assert (one[0], two[0], many.tolist()) == (1.5, 2.5, [0.1, 1, -7, 65535])


EXAMPLE = Path(__file__).parents[4] / "examples" / "export_c"


def test_the_example_folder(tmp_path: Path, c_compiler: str) -> None:
    subprocess.run([sys.executable, EXAMPLE / "export.py", tmp_path], check=True)
    link = [str(tmp_path / "smooth.so"), f"-Wl,-rpath,{tmp_path}", "-lm"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    subprocess.run(
        [c_compiler, *flags, EXAMPLE / "main.c", *link, "-o", tmp_path / "main"], check=True
    )
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "in : 0.00 0.00 9.00 0.00 0.00 3.00 3.00 3.00\n"
        "out: 0.00 3.00 3.00 3.00 1.00 2.00 3.00 3.00\n"
        "an empty signal: status 1\n"
    )


# --- names --------------------------------------------------------------------------------------


def info(*names: str) -> ModuleInfo:
    functions = tuple(FunctionInfo(name, ()) for name in names)
    return ModuleInfo(functions, (), "llvm", "x86_64-unknown-linux-gnu", "x86-64", ())


def c_name_list(stem: str, names: tuple[str, ...], **symbols: str) -> list[str]:
    return [f.c_name for f in c_names.c_functions(info(*names), stem, symbols)]


def test_names_that_c_cannot_have() -> None:
    assert c_name_list("lib", ("main", "f", "a.b", "2x", "int")) == [
        "lib_main",
        "f",
        "a_b",
        "_2x",
        "int_",
    ]
    assert c_name_list("lib", ("floor", "memset", "__x")) == ["lib_floor", "lib_memset", "lib___x"]
    assert c_name_list("my-lib", ("main", "tw_free")) == ["my_lib_main", "my_lib_tw_free"]
    assert c_name_list("lib", ("main",), main="sgemm") == ["sgemm"]


@pytest.mark.parametrize(
    ("names", "symbols", "expected"),
    [
        (("main",), {"f": "g"}, "symbols: the module has no function 'f'; it has main"),
        (("f",), {"f": "int"}, "symbols['f']: 'int' cannot be a C function's name here"),
        (("f",), {"f": "a b"}, "symbols['f']: 'a b' cannot be a C function's name here"),
        (("f",), {"f": "exp"}, "symbols['f']: 'exp' cannot be a C function's name here"),
        (("f",), {"f": "main"}, "symbols['f']: 'main' cannot be a C function's name here"),
        (
            ("a.b", "a_b"),
            {},
            "functions 'a.b' and 'a_b' are both called 'a_b' in C; give one another name: "
            "export_library(path, symbols={'a_b': ...})",
        ),
    ],
)
def test_names_that_clash(names: tuple[str, ...], symbols: dict[str, str], expected: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        c_name_list("lib", names, **symbols)
    assert str(caught.value) == expected


def test_a_chosen_name(matmul: Module, tmp_path: Path) -> None:
    path = tmp_path / "chosen.so"
    matmul.export_library(path, symbols={"main": "sgemm"})
    assert "int32_t sgemm(const float *A," in path.with_suffix(".h").read_text()
    assert hasattr(ctypes.CDLL(str(path)), "sgemm")
    a, b, c = operands()
    load_module(path)["main"](a, b, c)
    assert (c == a @ b).all()


# --- packed functions ---------------------------------------------------------------------------


@pytest.fixture
def callback() -> Iterator[None]:
    yield
    remove_global_func("t.exported")


@pytest.mark.usefixtures("callback")
def test_packed_calls_of_a_library(tmp_path: Path) -> None:
    @T.prim_func
    def main(A: T.Buffer((3,), "float32")):
        T.evaluate(T.call_packed("t.exported", A))

    path = tmp_path / "packed.so"
    build(main).export_library(path)
    assert "tw_set_packed_handler" in path.with_suffix(".h").read_text()
    values = np.zeros(3, np.float32)
    raw = ctypes.CDLL(str(path))
    assert raw.packed_main(ctypes.c_void_p(values.ctypes.data)) == -1
    loaded = load_module(path)
    register_func("t.exported", lambda a: a.fill(4))
    loaded(values)
    assert values.tolist() == [4] * 3


# --- other formats ------------------------------------------------------------------------------


def test_other_formats(matmul: Module, tmp_path: Path) -> None:
    (ll,) = matmul.export_library(tmp_path / "m.ll")
    (assembly,) = matmul.export_library(tmp_path / "m.s")
    objects = matmul.export_library(tmp_path / "m.o")
    assert "define" in ll.read_text()
    assert ".text" in assembly.read_text()
    (c,) = matmul.export_library(tmp_path / "m.c")
    assert c.read_text() == matmul.get_source("c")
    assert [file.name for file in objects] == ["m.o", "m_runtime.o"]
    assert all(file.read_bytes()[:4] == b"\x7fELF" for file in objects)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "m.zip",
            "cannot export m.zip: expected a name that ends in one of .so, .dylib, .o, .ll, .s, .c",
        ),
        ("m", "cannot export m: expected a name that ends in one of .so, .dylib, .o, .ll, .s, .c"),
    ],
)
def test_formats_that_we_do_not_write(matmul: Module, name: str, expected: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        matmul.export_library(name)
    assert str(caught.value) == expected


def test_a_folder_that_is_not_there(matmul: Module, tmp_path: Path) -> None:
    for name in ("m.so", "m.ll"):
        with pytest.raises(RuntimeFailure, match=r"cannot export .*: No such file or directory"):
            matmul.export_library(tmp_path / "nowhere" / name)


# --- files that are not loaded ------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        load_module(path)
    return str(caught.value).replace(str(path), "FILE")


DAMAGED = "cannot load FILE: the file is damaged or was changed after its export; export it again"


def test_damaged_files_are_refused_before_they_are_loaded(library: Path, tmp_path: Path) -> None:
    image, path = library.read_bytes(), tmp_path / "bad.so"
    marker = image.index(b"\x00tilewright")
    for size in (*range(marker + 32, len(image), len(image) // 20), len(image) - 1):
        path.write_bytes(image[:size])
        assert refusal(path) == DAMAGED
    for position in (20, 500, marker + 100, len(image) - 5):
        changed = bytearray(image)
        changed[position] ^= 0x40
        path.write_bytes(changed)
        assert refusal(path) == DAMAGED
    path.write_bytes(image + b"x")
    assert refusal(path) == DAMAGED


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "it is empty; give a library made by export_library"),
        (b"hello", "it is not a shared library; give a library made by export_library"),
        (
            b"\x7fELF" + bytes(14) + b"\xb7\x00" + bytes(100),
            "it is an ELF file for aarch64; give a library made by export_library",
        ),
        (
            b"\x7fELF" + bytes(14) + b"\x3e\x00" + bytes(100),
            "it is an ELF file for x86_64; give a library made by export_library",
        ),
    ],
)
def test_foreign_files(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.so"
    path.write_bytes(content)
    assert refusal(path) == f"cannot load FILE: {expected}"


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.so") == "cannot load FILE: No such file or directory"
    assert refusal(tmp_path) == "cannot load FILE: Is a directory"


def resealed(image: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    assert image.count(old) == 1
    return seal(image.replace(old, new))


def test_a_library_for_another_machine(library: Path, tmp_path: Path) -> None:
    image, path = library.read_bytes(), tmp_path / "other.so"
    path.write_bytes(resealed(image, b'"triple":"x86_64', b'"triple":"arm64e'))
    assert refusal(path).startswith(
        "cannot load FILE: it was compiled for arm64e-unknown-linux-gnu"
    )
    path.write_bytes(resealed(image, b'"sse4.2"', b'"sse9.9"'))
    cpu = read_description(library).module.cpu
    assert refusal(path) == (
        f"cannot load FILE: it was compiled for {cpu} with sse9.9, which this machine's {cpu} "
        "lacks; export it for this machine"
    )


def test_a_library_of_another_format(library: Path, tmp_path: Path) -> None:
    image, path = bytearray(library.read_bytes()), tmp_path / "new.so"
    at = image.index(b"library\x01") + len(b"library\x01")
    image[at] = 9
    path.write_bytes(image)
    assert refusal(path) == (
        "cannot load FILE: it has format 9, this version of Tilewright reads 1; export it again"
    )


def test_a_library_that_needs_a_function_nobody_has(tmp_path: Path) -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "int32")):
        A[0] = T.call_extern("int32", "t_exported_extern", A[0])

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
    function = kind(lambda value: value)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    path = tmp_path / "needs.so"
    build(main, extern_symbols={"t_exported_extern": address}).export_library(path)
    assert "undefined symbol: t_exported_extern" in refusal(path)


def test_descriptions_survive_the_round_trip(library: Path, matmul: Module) -> None:
    description = read_description(library)
    assert description.module == matmul.info
    assert (description.has_threads, description.calls_packed) == (True, False)
    assert dataclasses.asdict(description.module)["messages"] == ("n must be even",)
