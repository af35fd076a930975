"""Exporting shared libraries without a compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.codegen.host.linker import export_shared_object, link_with_compiler
from tilewright.codegen.llvm import compiler
from tilewright.errors import CodegenError
from tilewright.native.elf import link_shared_object, needed_libraries
from tilewright.native.elf_image import sysv_hash_table
from tilewright.native.platform import is_linux_x86_64

pytestmark = pytest.mark.skipif(
    not is_linux_x86_64(compiler.host_machine().triple),
    reason="our own linker writes x86-64 Linux libraries",
)

# Constants, addresses in data, zeroed and initialised globals, imports of code and of data,
# calls within the library, and the runtime.
LIBRARY = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@pointers = constant [2 x ptr] [ptr @table, ptr @scale]
@imported = global ptr @labs
@factor = global i64 5
@calls = internal global [1000 x i64] zeroinitializer
@environ = external global ptr
declare i64 @labs(i64)
declare double @exp(double)
declare i32 @tw_parallel_launch(ptr, ptr, i64)
declare ptr @tw_workspace_alloc(i64)
declare void @tw_workspace_free(ptr)

define i64 @scale(i64 %x) {
  %low = and i64 %x, 3
  %cell = getelementptr [4 x i64], ptr @table, i64 0, i64 %low
  %value = load i64, ptr %cell
  %factor = load i64, ptr @factor
  %product = mul i64 %value, %factor
  %negative = sub i64 0, %product
  %result = call i64 @labs(i64 %negative)
  ret i64 %result
}

define i64 @count_calls(i64 %x) {
  %cell = getelementptr [1000 x i64], ptr @calls, i64 0, i64 %x
  %old = load i64, ptr %cell
  %new = add i64 %old, 1
  store i64 %new, ptr %cell
  ret i64 %new
}

define i64 @through_pointers(i64 %x) {
  %scale.at = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 1
  %scale = load volatile ptr, ptr %scale.at
  %scaled = call i64 %scale(i64 %x)
  %labs = load volatile ptr, ptr @imported
  %minus = sub i64 0, %scaled
  %result = call i64 %labs(i64 %minus)
  ret i64 %result
}

define double @exponential(double %x) {
  %result = call double @exp(double %x)
  ret double %result
}

define i32 @has_environment() {
  %environment = load volatile ptr, ptr @environ
  %some = icmp ne ptr %environment, null
  %result = zext i1 %some to i32
  ret i32 %result
}

define internal i32 @add_one(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %cell = getelementptr i32, ptr %data, i64 %i
  %old = load i32, ptr %cell
  %new = add i32 %old, 1
  store i32 %new, ptr %cell
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i32 @add_one_everywhere(ptr %data, i64 %count) {
  %workspace = call ptr @tw_workspace_alloc(i64 1000)
  store i8 1, ptr %workspace
  call void @tw_workspace_free(ptr %workspace)
  %status = call i32 @tw_parallel_launch(ptr @add_one, ptr %data, i64 %count)
  ret i32 %status
}
"""

CALLER = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
def function(name, result, *arguments):
    f = getattr(library, name); f.restype = result; f.argtypes = arguments; return f
i64 = ctypes.c_int64
scale = function("scale", i64, i64)
print([scale(i) for i in range(5)])
print([function("through_pointers", i64, i64)(i) for i in range(5)])
count = function("count_calls", i64, i64)
print([count(999), count(999), count(0)])
print(function("exponential", ctypes.c_double, ctypes.c_double)(1.0))
print(function("has_environment", ctypes.c_int32)())
function("tw_set_num_threads", None, ctypes.c_int32)(3)
data = (ctypes.c_int32 * 1000)()
run = function("add_one_everywhere", ctypes.c_int32, ctypes.c_void_p, i64)
print(sum(run(data, 1000) for _ in range(50)), set(data))
print(function("tw_num_threads", ctypes.c_int32)())
assert "llvmlite" not in sys.modules
"""

EXPECTED = """[50, 100, 150, 200, 50]
[50, 100, 150, 200, 50]
[1, 2, 1]
2.718281828459045
1
0 {50}
3
"""

C_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
int64_t scale(int64_t);
int32_t add_one_everywhere(int32_t *, int64_t);
int main(void) {
    static int32_t data[1000];
    int32_t status = add_one_everywhere(data, 1000), sum = 0;
    for (int i = 0; i < 1000; ++i) sum += data[i];
    printf("%d %d %d\\n", (int)scale(2), status, sum);
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "libkernels.so"
    export_shared_object(path, [compiler.compile_ir(LIBRARY)])
    return path


def output(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fresh_process_loads_and_runs_it(library: Path) -> None:
    assert output(sys.executable, "-c", CALLER, library) == EXPECTED


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_c_program_links_against_it(library: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text(C_PROGRAM)
    output("gcc", source, "-o", program, library, f"-Wl,-rpath,{library.parent}")
    assert output(program) == "150 0 1000\n"


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_readelf_finds_a_well_formed_library(library: Path) -> None:
    done = subprocess.run(["readelf", "-aW", str(library)], capture_output=True, text=True)
    assert done.stderr == ""
    assert "Shared library: [libc.so.6]" in done.stdout
    assert "Shared library: [libm.so.6]" in done.stdout
    assert "Library soname: [libkernels.so]" in done.stdout
    assert "NOW NODELETE" in done.stdout
    # No segment is both writable and executable, and the stack is not executable.
    assert "RWE" not in done.stdout
    assert "GLOBAL DEFAULT" in done.stdout


def test_a_library_without_parallel_loops_carries_no_runtime(tmp_path: Path) -> None:
    path = tmp_path / "libsmall.so"
    export_shared_object(
        path, [compiler.compile_ir("define i64 @id(i64 %x) {\n  ret i64 %x\n}")], ["id"]
    )
    library = ctypes.CDLL(str(path))
    library.id.restype = ctypes.c_int64
    assert library.id(ctypes.c_int64(7)) == 7
    assert not hasattr(library, "tw_num_threads")
    assert b"pthread_create" not in path.read_bytes()


def test_only_the_exports_are_visible(tmp_path: Path) -> None:
    source = (
        "define i64 @inner(i64 %x) noinline {\n  %r = add i64 %x, 1\n  ret i64 %r\n}\n"
        "define i64 @outer(i64 %x) {\n  %r = call i64 @inner(i64 %x)\n  ret i64 %r\n}\n"
    )
    path = tmp_path / "libouter.so"
    export_shared_object(path, [compiler.compile_ir(source)], ["outer"])
    library = ctypes.CDLL(str(path))
    assert library.outer(41) == 42
    assert not hasattr(library, "inner")


def test_objects_call_each_other(tmp_path: Path) -> None:
    first = "declare i32 @two()\ndefine i32 @one() {\n  %x = call i32 @two()\n  ret i32 %x\n}"
    second = "define i32 @two() {\n  ret i32 22\n}"
    path = tmp_path / "libboth.so"
    export_shared_object(path, [compiler.compile_ir(first), compiler.compile_ir(second)])
    assert ctypes.CDLL(str(path)).one() == 22


def test_a_missing_import_is_reported_when_loading(tmp_path: Path) -> None:
    source = (
        "declare i32 @nowhere()\ndefine i32 @f() {\n  %x = call i32 @nowhere()\n  ret i32 %x\n}"
    )
    path = tmp_path / "libnowhere.so"
    export_shared_object(path, [compiler.compile_ir(source)])
    with pytest.raises(OSError, match="undefined symbol: nowhere"):
        ctypes.CDLL(str(path))


def static_object(source: str) -> bytes:
    """An object as no shared library can use it."""
    target = compiler.llvm().Target.from_triple(compiler.host_machine().triple)
    machine = target.create_target_machine(reloc="static", codemodel="small")
    return bytes(machine.emit_object(compiler.llvm().parse_assembly(source)))


def test_absolute_code_is_refused_by_name() -> None:
    source = (
        "@table = internal constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]\n"
        "define ptr @f() {\n  ret ptr @table\n}"
    )
    with pytest.raises(
        CodegenError,
        match=r"cannot link: relocation R_X86_64_32S? against .* in section \.text does not fit a"
        r" shared library; link the object with a system compiler instead \(`cc -shared`\)",
    ):
        link_shared_object([static_object(source)], "libx.so")


@pytest.mark.parametrize(
    ("source", "section"),
    [
        ("@t = thread_local global i32 5", ".tdata"),
        (
            "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]"
            " [{ i32, ptr, ptr } { i32 65535, ptr @f, ptr null }]\n"
            "define internal void @f() {\n  ret void\n}",
            ".ctors",
        ),
    ],
)
def test_unsupported_sections_are_refused(source: str, section: str) -> None:
    with pytest.raises(CodegenError, match=f"cannot link section '{section}"):
        link_shared_object([compiler.compile_ir(source).data], "libx.so")


def test_mistakes_are_named(tmp_path: Path) -> None:
    one = compiler.compile_ir("define i32 @f() {\n  ret i32 1\n}")
    with pytest.raises(CodegenError, match="'f' is defined by two objects; rename one of them"):
        export_shared_object(tmp_path / "x.so", [one, one])
    with pytest.raises(CodegenError, match="cannot export g: no object defines it; defined are f"):
        export_shared_object(tmp_path / "x.so", [one], ["f", "g"])
    with pytest.raises(CodegenError, match=r"cannot export x\.so: there is no compiled object"):
        export_shared_object(tmp_path / "x.so", [])
    with pytest.raises(CodegenError, match="expected a relocatable 64-bit ELF object for x86-64"):
        link_shared_object([b"MZ" + bytes(100)], "x.so")
    with pytest.raises(CodegenError, match="too short to be an ELF file"):
        link_shared_object([b""], "x.so")


def test_the_system_compiler_is_the_other_way(tmp_path: Path) -> None:
    compiled = compiler.compile_ir("define i32 @f() {\n  ret i32 7\n}")
    with pytest.raises(
        CodegenError,
        match=r"cannot export f\.so for riscv64-linux: Tilewright links only x86_64 Linux itself,"
        r" and no system compiler was found \(looked for no-such-cc\); install one",
    ):
        link_with_compiler(tmp_path / "f.so", [], "riscv64-linux", ["no-such-cc"])
    if shutil.which("cc") is None:
        pytest.skip("needs cc")
    link_with_compiler(tmp_path / "f.so", [compiled.data], compiled.meta["triple"])
    assert ctypes.CDLL(str(tmp_path / "f.so")).f() == 7
    with pytest.raises(CodegenError, match=r"cannot export g\.so: cc failed with exit code 1"):
        link_with_compiler(tmp_path / "g.so", [b"nonsense"], "x86_64-linux")


def test_needed_libraries() -> None:
    assert needed_libraries(["malloc"]) == ["libc.so.6"]
    assert needed_libraries(["expf"]) == ["libc.so.6", "libm.so.6"]
    assert needed_libraries(["erf"]) == ["libc.so.6", "libm.so.6"]
    assert needed_libraries(["pthread_create"]) == ["libc.so.6", "libpthread.so.0"]


def test_the_hash_table_finds_every_name() -> None:
    names = ["", *(f"symbol_{i}" for i in range(100)), "printf"]
    words = memoryview(sysv_hash_table(names)).cast("I")
    buckets, chains = words[2 : 2 + words[0]], words[2 + words[0] :]
    # The published hash value of this name in the ABI's classic function.
    at = buckets[0x077905A6 % len(buckets)]
    while at and names[at] != "printf":
        at = chains[at]
    assert names[at] == "printf"
    reachable = set()
    for start in buckets:
        while start:
            reachable.add(start)
            start = chains[start]
    assert reachable == set(range(1, len(names)))
