"""What users may name on the command line, and what they are told when they mistype."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.cli.programs import (
    all_programs,
    load_function,
    load_program,
    open_all,
    open_text,
    programs_of,
)
from tilewright.errors import TilewrightError, TuneError
from tilewright.ir import structural_equal
from tilewright.testing.te_workload import create_te_workload

PROGRAMS = """
from tilewright import te
from tilewright.ir import IRModule
from tilewright.script import tir as T

@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)

def tensors():
    a = te.placeholder((8,), name="A")
    return [a, te.compute((8,), lambda i: a[i] + 1.0, name="B")]

def one_tensor():
    return tensors()[1]

def fails():
    return 1 // 0

def needs_size(n):
    return n

pair = IRModule({"first": double, "second": double})
empty = IRModule({})
number = 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("programs.py").write_text(PROGRAMS)
    return "programs.py"


def _refusal(text: str) -> str:
    with pytest.raises(TuneError) as caught:
        load_program(text)
    return str(caught.value)


def test_workloads() -> None:
    program = load_program("GMM:1")
    assert (program.name, program.workload, program.arguments) == (
        "GMM:1",
        "GMM",
        (1, 512, 32, 512),
    )
    assert structural_equal(program.func, create_te_workload("GMM", 1))
    assert load_program("SFM").name == "SFM:0"


def test_unknown_workloads() -> None:
    assert _refusal("gmm:0") == "there is no workload 'gmm'; did you mean 'GMM'?"
    assert _refusal("attention").startswith(
        "there is no workload 'attention'; write FILE.py:NAME, or WORKLOAD or WORKLOAD:INDEX with "
        "one of C1D, C2D, C3D, GMM,"
    )


@pytest.mark.parametrize("index", ["4", "-1", "first"])
def test_unknown_shapes(index: str) -> None:
    assert _refusal(f"GMM:{index}") == (
        f"workload GMM has no shape {index!r}; it has GMM:0 (1, 128, 128, 128); "
        "GMM:1 (1, 512, 32, 512); GMM:2 (1, 512, 512, 512); GMM:3 (1, 1024, 1024, 1024)"
    )


def test_functions_of_files(file: str) -> None:
    assert load_program(f"{file}:double").name == "double"
    assert load_program(f"./{file}:tensors").name == "tensors"
    assert [program.name for program in programs_of(open_text(f"{file}:pair"))] == [
        "first",
        "second",
    ]


def test_a_file_with_one_program_needs_no_name(tmp_path: Path) -> None:
    source = PROGRAMS.split("def tensors")[0]
    (tmp_path / "single.py").write_text(source)
    assert load_program(str(tmp_path / "single.py")).name == "double"


def test_names_that_occur_twice_get_a_number(file: str) -> None:
    names = [
        program.name
        for program in all_programs(open_all([f"{file}:double", "GMM:0", f"{file}:double"]))
    ]
    assert names == ["double", "GMM:0", "double#2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program.py:double", "there is no file program.py; did you mean 'programs.py'?"),
        ("else/where.py:f", "there is no file else/where.py"),
        ("programs.py:dubble", "programs.py has no 'dubble'; did you mean 'double'?"),
        ("programs.py:tensor", "programs.py has no 'tensor'; did you mean 'tensors'?"),
        (
            "programs.py:zzz",
            "programs.py has no 'zzz'; it offers double, tensors, one_tensor, fails, pair, empty",
        ),
        (
            "programs.py",
            "programs.py offers double, tensors, one_tensor, fails, pair, empty; write "
            "programs.py:NAME",
        ),
        (
            "programs.py:number",
            "number in programs.py is int, expected a T.prim_func, an I.ir_module, or a function "
            "that returns one of them or a list of tensors",
        ),
        (
            "programs.py:one_tensor",
            "one_tensor in programs.py returns one tensor; return a list of the inputs and the "
            "outputs",
        ),
        (
            "programs.py:fails",
            "programs.py cannot call fails(): ZeroDivisionError: integer division or modulo by "
            "zero (line 21)",
        ),
        (
            "programs.py:needs_size",
            "programs.py cannot call needs_size(): TypeError: needs_size() missing 1 required "
            "positional argument: 'n'",
        ),
        ("programs.py:empty", "empty in programs.py is a module without functions"),
        (
            "programs.py:pair",
            "programs.py:pair is a module of 2 functions, choose one: first, second",
        ),
    ],
)
def test_mistakes(file: str, text: str, message: str) -> None:
    assert _refusal(text) == message


def test_a_file_without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nothing.py").write_text("x = 1\n")
    assert _refusal("nothing.py") == "nothing.py holds no program; write nothing.py:NAME"
    assert _refusal("nothing.py:f") == "nothing.py has no 'f'; it holds no program"


def test_a_file_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("x = 1\ny = z\n")
    assert _refusal("broken.py:f") == (
        "broken.py does not run: NameError: name 'z' is not defined (line 2)"
    )
    Path("no_type.py").write_text(
        "from tilewright.script import tir as T\n"
        "@T.prim_func\ndef f(a: T.Buffer((8,), 'float4')):\n    a[0] = a[1]\n"
    )
    assert _refusal("no_type.py:f") == (
        "no_type.py does not run: dtype 'float4': float comes in 8, 16, 32, 64 bits (line 3)"
    )
    Path("no_script.py").write_text(
        "from tilewright.script import tir as T\n"
        "@T.prim_func\ndef f(a: T.Buffer((8,))):\n    a[0] = b[1]\n"
    )
    with pytest.raises(TilewrightError, match="undefined variable 'b'"):
        load_program("no_script.py:f")


def test_python_functions(file: str) -> None:
    assert len(load_function(f"{file}:tensors", "--against")()) == 2
    with pytest.raises(TuneError, match=r"programs\.py has no function 'tensor'; did you mean"):
        load_function(f"{file}:tensor", "--against")
    with pytest.raises(TuneError, match=r"GMM: expected FILE\.py:NAME, a Python function"):
        load_function("GMM", "--against")
