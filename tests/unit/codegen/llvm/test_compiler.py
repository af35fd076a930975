"""Compiling and loading textual LLVM IR."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tilewright.codegen.host import loading
from tilewright.codegen.llvm import compiler
from tilewright.codegen.llvm.optimizer import (
    DEFAULT_PIPELINE,
    DEFAULT_PIPELINES,
    PASS_METHODS,
    UNOPTIMISED,
    OptimizerPipeline,
)
from tilewright.errors import CodegenError

AFFINE = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
declare i64 @offset(i64)
define i64 @affine(i64 %x) {
  %cell = getelementptr i64, ptr @table, i64 %x
  %value = load i64, ptr %cell
  %result = call i64 @offset(i64 %value)
  ret i64 %result
}
"""

SUM_LOOP = """
define i64 @sum(ptr %data, i64 %count) {
entry:
  %total = alloca i64
  store i64 0, ptr %total
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %cell = getelementptr i64, ptr %data, i64 %i
  %value = load i64, ptr %cell
  %old = load i64, ptr %total
  %new = add i64 %old, %value
  store i64 %new, ptr %total
  %i.next = add i64 %i, 1
  br label %check
done:
  %result = load i64, ptr %total
  ret i64 %result
}
"""

IntFunction = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
SumFunction = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def address_of(callback: object) -> int:
    address = ctypes.cast(callback, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address


def test_compile_load_and_call_with_an_imported_function() -> None:
    add_one = IntFunction(lambda x: x + 1)
    compiled = compiler.compile_ir(AFFINE)
    assert compiled.defined == ("affine",)
    assert compiled.undefined == ("offset",)
    library = loading.load_objects([compiled], {"offset": address_of(add_one)})
    assert [IntFunction(library["affine"])(i) for i in range(4)] == [11, 21, 31, 41]
    library.close()


def test_objects_see_each_other_and_the_process() -> None:
    helper = compiler.compile_ir(
        "declare i64 @labs(i64)\n"
        "define i64 @offset(i64 %x) {\n  %n = sub i64 0, %x\n"
        "  %r = call i64 @labs(i64 %n)\n  ret i64 %r\n}"
    )
    library = loading.load_objects([compiler.compile_ir(AFFINE), helper])
    assert IntFunction(library["affine"])(2) == 30
    assert sorted(library.symbols) == ["affine", "offset"]


@pytest.mark.parametrize(
    "pipeline",
    [
        UNOPTIMISED,
        DEFAULT_PIPELINE,
        OptimizerPipeline("every pass", tuple(PASS_METHODS)),
        *(OptimizerPipeline(name, ("sroa", name)) for name in DEFAULT_PIPELINES),
        *(OptimizerPipeline(f"O{level}", ("sroa",), level) for level in range(4)),
    ],
    ids=lambda pipeline: pipeline.name,
)
def test_every_pipeline_computes_the_same(pipeline: OptimizerPipeline) -> None:
    library = loading.load_objects([compiler.compile_ir(SUM_LOOP, pipeline=pipeline)])
    data = (ctypes.c_int64 * 100)(*range(100))
    assert SumFunction(library["sum"])(ctypes.addressof(data), 100) == 4950


def test_the_pipeline_does_work_and_can_be_looked_at() -> None:
    machine = compiler.host_machine()
    assert "alloca" in compiler.optimised_ir(SUM_LOOP, machine, UNOPTIMISED)
    assert "alloca" not in compiler.optimised_ir(SUM_LOOP, machine)
    assert "sum:" in compiler.assembly(SUM_LOOP, machine)
    tuned = compiler.compile_ir(SUM_LOOP)
    assert tuned.data[:4] == b"\x7fELF" or sys.platform != "linux"


def test_an_artifact_is_named_by_all_that_is_in_it() -> None:
    made, again = compiler.compile_ir(SUM_LOOP), compiler.compile_ir(SUM_LOOP)
    assert made == again
    assert made.digest == again.digest
    others = [
        replace(made, kind="c"),
        replace(made, data=made.data + b"\0"),
        replace(made, defined=()),
        replace(made, undefined=("more",)),
        replace(made, meta={**made.meta, "cpu": "another"}),
    ]
    assert len({made.digest, *(other.digest for other in others)}) == 6


def test_target_machines_are_shared() -> None:
    host = compiler.host_machine()
    same = compiler.MachineOptions(**vars(host))
    assert compiler.target_machine(host, 2) is compiler.target_machine(same, 2)
    assert compiler.target_machine(host, 1) is not compiler.target_machine(host, 2)


def test_a_parse_error_shows_the_line() -> None:
    with pytest.raises(CodegenError) as error:
        compiler.compile_ir("define i32 @f() {\n  ret i64 0\n}")
    assert str(error.value) == (
        "LLVM cannot parse the generated IR, line 2 column 7: value doesn't match function"
        " result type 'i32'\n    ret i64 0\n        ^"
    )


def test_a_verifier_error_shows_the_line() -> None:
    source = (
        "define i32 @f(i32 %x) {\na:\n  br label %b\nb:\n  %y = add i32 %z, 1\n"
        "  br label %c\nc:\n  %z = add i32 %x, 1\n  ret i32 %y\n}"
    )
    with pytest.raises(CodegenError) as error:
        compiler.compile_ir(source)
    assert str(error.value) == (
        "LLVM rejects the generated IR, line 8: Instruction does not dominate all uses!\n"
        "  %z = add i32 %x, 1\n  %y = add i32 %z, 1"
    )


def test_an_unknown_symbol_is_named() -> None:
    with pytest.raises(CodegenError, match=r"the compiled code calls offset, which neither"):
        loading.load_objects([compiler.compile_ir(AFFINE)])


def test_an_unknown_function_is_named() -> None:
    library = loading.load_objects([compiler.compile_ir(SUM_LOOP)])
    with pytest.raises(CodegenError, match=r"does not define 'product'; it defines sum"):
        library["product"]
    library.close()
    with pytest.raises(CodegenError, match=r"cannot look up 'sum': the library has been unloaded"):
        library["sum"]


def test_a_foreign_triple_is_refused() -> None:
    machine = compiler.MachineOptions("", "", "riddle64-none-none")
    with pytest.raises(CodegenError, match="this LLVM cannot compile for 'riddle64-none-none'"):
        compiler.compile_ir(SUM_LOOP, machine)


def test_pipelines_are_checked_and_round_trip() -> None:
    assert OptimizerPipeline.parse(str(DEFAULT_PIPELINE)) == DEFAULT_PIPELINE
    assert OptimizerPipeline.parse(str(UNOPTIMISED)) == UNOPTIMISED
    with pytest.raises(CodegenError, match="pass pipeline 'p': unknown pass 'polish'; use one of"):
        OptimizerPipeline("p", ("sroa", "polish"))
    with pytest.raises(CodegenError, match="codegen_level must be 0 to 3, got 4"):
        OptimizerPipeline("p", (), 4)
    with pytest.raises(CodegenError, match="cannot read pass pipeline 'sroa'"):
        OptimizerPipeline.parse("sroa")


def test_many_libraries_outlive_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LIBRARIES_PER_ENGINE", 3)
    compiled = compiler.compile_ir(SUM_LOOP)
    libraries = [loading.load_objects([compiled]) for _ in range(10)]
    data = (ctypes.c_int64 * 4)(1, 2, 3, 4)
    del libraries[2:8]
    gc.collect()
    for library in libraries:
        assert SumFunction(library["sum"])(ctypes.addressof(data), 4) == 10


def test_threads_may_compile_at_once() -> None:
    def answer(value: int) -> int:
        source = f"define i64 @f(i64 %x) {{\n  %r = add i64 %x, {value}\n  ret i64 %r\n}}"
        library = loading.load_objects([compiler.compile_ir(source)])
        return int(IntFunction(library["f"])(1000))

    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(answer, range(40))) == list(range(1000, 1040))


def test_importing_the_runtime_does_not_load_llvm() -> None:
    script = (
        "import sys\n"
        "import tilewright.codegen.llvm.compiler, tilewright.runtime.threads\n"
        "import tilewright.codegen.host.native\n"
        "assert not [name for name in sys.modules if name.startswith('llvmlite')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
