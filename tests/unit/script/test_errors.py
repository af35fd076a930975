"""Script errors: the text, the user's line, the mark under the culprit."""

from __future__ import annotations

import textwrap

import pytest

from tilewright.errors import ScriptError, WellFormedError
from tilewright.script import from_source

HEAD = 'def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "int32"), n: T.int32):'


def fail(body: str, head: str = HEAD) -> str:
    text = f"@T.prim_func\n{head}\n{textwrap.indent(body, '    ')}\n"
    with pytest.raises(ScriptError) as caught:
        from_source(text, filename="f.py")
    return str(caught.value)


def test_the_whole_message() -> None:
    assert fail("for idx in range(16):\n    B[idx] = B[idy]") == textwrap.dedent("""\
        undefined variable 'idy'; did you mean 'idx'?
         --> f.py, line 4
        3 |     for idx in range(16):
        4 |         B[idx] = B[idy]
          |                    ^^^""")


BLOCK = 'for i, j in T.grid(16, 16):\n    with T.block("b"):\n        '


@pytest.mark.parametrize(
    ("body", "message", "culprit"),
    [
        ("B[0] = A[j, 0]", "undefined variable 'j'", "j"),
        ("B[0] = helper(3)", "undefined variable 'helper'", "helper"),
        (
            "B[0] = A[0]",
            "buffer 'A' has 2 dimensions (16, 16), but 1 index is given",
            "A[0]",
        ),
        (
            "B[0, n, 1] = 1",
            "buffer 'B' has 1 dimension (16,), but 3 indices are given",
            "B[0, n, 1]",
        ),
        (
            "A[0, 16] = 1.0",
            "index 16 is out of bounds: dimension 1 of buffer 'A' goes from 0 to 15",
            "A[0, 16]",
        ),
        (
            "A[n, A[0, 0]] = 1.0",
            "index 1 of buffer 'A' must be an integer expression, got `A[0, 0]` of type float32",
            "A[n, A[0, 0]]",
        ),
        (
            "B[0] = A[0, 0]",
            "cannot store a float32 value in buffer 'B' of int32: convert it with "
            'T.Cast("int32", ...)',
            "A[0, 0]",
        ),
        (
            "B[0:4] = B[0]",
            "the store into buffer 'B' needs a value of type int32x4, got int32; use T.Broadcast "
            "to fill all lanes",
            "B[0]",
        ),
        (
            "B[0] = A[0:n, 0]",
            "a slice of buffer 'A' that is read as a vector needs a constant length, and only the "
            "last dimension may be a slice",
            "A[0:n, 0]",
        ),
        ("A[0, 0] = T.expp(A[0, 0])", "T has no 'expp'; did you mean 'exp'?", "T.expp"),
        (
            "for i in T.paralel(4):\n    pass",
            "T has no 'paralel'; did you mean 'parallel'?",
            "T.paralel",
        ),
        (
            "Bb[0] = 1",
            "assignment to an element of 'Bb', which is not defined; did you mean 'B'? buffers "
            "come from T.alloc_buffer, T.match_buffer or a parameter `A: T.Buffer(...)`",
            "Bb",
        ),
        ("n[0] = 1", "only elements of buffers can be assigned to, this is `n` of type int32", "n"),
        (
            "B[0] = A.shapes[0]",
            "buffer 'A' has no attribute 'shapes'; did you mean 'shape'?",
            "A.shapes",
        ),
        (
            "if n:\n    B[0] = 1",
            "expected a condition of type bool, got int32: compare it, e.g. `x != 0`",
            "n",
        ),
        (
            "B[0] = n / 2",
            "`/` on integers (n / 2) is ambiguous: use `//` (floordiv), T.truncdiv, or cast to a "
            "float type",
            "n / 2",
        ),
        (
            "x = n + 1\nx += 1",
            "'x' is a variable of the program and keeps its value; use a buffer of shape (1,) for "
            "a value that changes",
            "x += 1",
        ),
        ("assert 1 > 2, 'sizes'", "assertion does not hold: sizes", "assert 1 > 2, 'sizes'"),
        ("import os", "`import` has no meaning in a TensorIR function", "import os"),
        ("B[0] = 1 +", "not valid Python: invalid syntax", ""),
        (
            "A[0, 0] = T.exp(A[0, 0], 3)",
            "exp() takes 1 positional argument but 2 were given",
            "T.exp(A[0, 0], 3)",
        ),
    ],
)
def test_expressions_and_stores(body: str, message: str, culprit: str) -> None:
    check(fail(body), message, culprit)


@pytest.mark.parametrize(
    ("body", "message", "culprit"),
    [
        (
            "for i, j in T.grid(16):\n    pass",
            "2 loop variables are named for 1 loop",
            "i, j",
        ),
        (
            "for i in n:\n    pass",
            "cannot loop over `n` of type int32; expected range(...), T.grid(...), T.serial(...), "
            "T.parallel(...), T.vectorized(...), T.unroll(...), T.thread_binding(...) or a Python "
            "list",
            "n",
        ),
        (
            "for i in range(0, 16, 2):\n    pass",
            "range takes (stop) or (start, stop); loops of TensorIR have no step",
            "range(0, 16, 2)",
        ),
        (
            "vi = T.axis.spatial(16, n)",
            "T.axis.spatial must stand directly inside `with T.block(...)`",
            "T.axis.spatial(16, n)",
        ),
        (
            "T.reads(B[0])",
            "T.reads must stand directly inside `with T.block(...)`",
            "T.reads(B[0])",
        ),
        (
            BLOCK + "vi = T.axis.spatial(16)",
            "T.axis.spatial needs the value the iterator is bound to, e.g. "
            "T.axis.spatial(16, i); only a block with no_realize=True goes without",
            "T.axis.spatial(16)",
        ),
        (
            BLOCK + "vi = T.axis.S(16, i)\n        vi = T.axis.S(16, j)",
            "the iterator 'vi' is given twice in block 'b'",
            "vi",
        ),
        (
            BLOCK + "vi = T.axis.spatial(16, i)\n        B[vi] = 1\n    B[vi] = 2",
            "'vi' is not defined here: it is an iterator or buffer of block 'b', which has ended",
            "vi",
        ),
        (
            BLOCK + "vi = T.axis.spatial(16, i)\n        B[vi] = j",
            "loop variable 'j' is used inside block 'b': bind it to an iterator of the block, "
            "e.g. vj = T.axis.spatial(n, j)",
            "j",
        ),
        (
            BLOCK + 'vi, vj = T.axis.remap("SR", [i])',
            "T.axis.remap needs one letter for each loop variable: 'SR' has 2, but 1 variable is "
            "given",
            'T.axis.remap("SR", [i])',
        ),
        (
            BLOCK + 'vi = T.axis.remap("SR", [i, j])',
            "T.axis.remap makes 2 iterators, but 1 name is given",
            "vi",
        ),
        (
            BLOCK + 'vi, vj = T.axis.remap("SX", [i, j])',
            "T.axis.remap knows 'S' (spatial) and 'R' (reduce), not 'X'",
            'T.axis.remap("SX", [i, j])',
        ),
        (
            BLOCK + 'vi = T.axis.remap("S", [j + 1])',
            "T.axis.remap binds iterators to loop variables, `j + 1` of type int32 is not one; "
            "use T.axis.spatial(extent, value) or T.axis.reduce(extent, value)",
            'T.axis.remap("S", [j + 1])',
        ),
        (
            'with T.block("b"):\n    T.reads(B[0])\n    T.reads(B[1])',
            "T.reads is given twice in block 'b'",
            "T.reads(B[1])",
        ),
        (
            'with T.block("b"):\n    T.call_extern("int32", "f", A.data)',
            "block 'b' uses the pointer of 'A': what it accesses cannot be seen; state it with "
            "T.reads(...) and T.writes(...)",
            'T.block("b")',
        ),
        (
            "T.alloc_buffer((16,))",
            "what T.alloc_buffer(...) makes needs a name: `x = T.alloc_buffer(...)`",
            "T.alloc_buffer((16,))",
        ),
        ("x = T.grid(3)", "expected an expression, got T.grid(...)", "T.grid(3)"),
        (
            "with T.grid(3):\n    pass",
            "T.grid(...) cannot be used with `with`; expected T.block, T.init, T.attr, T.LetStmt, "
            "T.allocate, T.decl_buffer, T.launch_thread or T.Assert",
            "T.grid(3)",
        ),
        (
            "Z = T.match_buffer(n, (3,))",
            "expected a handle parameter or a region of a buffer, got n",
            "T.match_buffer(n, (3,))",
        ),
    ],
)
def test_statements(body: str, message: str, culprit: str) -> None:
    check(fail(body), message, culprit)


@pytest.mark.parametrize(
    ("head", "message", "culprit"),
    [
        (
            "def f(A):",
            "parameter 'A' needs an annotation: T.Buffer(shape, dtype), T.handle or a scalar type "
            "such as T.int32",
            "A",
        ),
        (
            "def f(A: T.Buffer((4,), 'flot32')):",
            "unknown dtype 'flot32': expected for example 'float32', 'int8' or 'bool'",
            "T.Buffer((4,), 'flot32')",
        ),
        (
            "def f(n: T.int32 = 3):",
            "a TensorIR function takes plain positional parameters only",
            "def f(n: T.int32 = 3):",
        ),
    ],
)
def test_parameters(head: str, message: str, culprit: str) -> None:
    check(fail("pass", head), message, culprit)


def check(found: str, message: str, culprit: str) -> None:
    lines = found.splitlines()
    assert lines[0] == message
    shown, marks = lines[-2].split("| ", 1)[1], lines[-1].split("| ", 1)[1]
    if culprit:
        start = marks.index("^")
        assert shown[start : start + marks.count("^")] == culprit


def test_an_indented_text_with_wide_characters_is_marked_right() -> None:
    text = (
        '    @T.prim_func\n    def f(A: T.Buffer((4,), "float32")):\n        A["äöü", xyz] = 1.0\n'
    )
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    assert str(caught.value).splitlines()[-2:] == [
        '3 |         A["äöü", xyz] = 1.0',
        "  |                  ^^^",
    ]


def test_a_program_that_breaks_a_rule_is_refused() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((16,), "float32")):
    n = T.int32()
    A[n] = T.float32(1)
"""
    with pytest.raises(WellFormedError, match="'n'"):
        from_source(text)
    assert "A[n]" in from_source(text, check_well_formed=False).script()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected one function or one module, found 0"),
        ("x = 1", "expected a function decorated with @T.prim_func or a class with @I.ir_module"),
        (
            "@T.prim_func\ndef f():\n    pass\n@T.prim_func\ndef g():\n    pass",
            "expected one function or one module, found 2",
        ),
        (
            "@I.ir_module\nclass M:\n    x = 1",
            "a module contains functions decorated with @T.prim_func",
        ),
    ],
)
def test_texts_without_a_program(text: str, message: str) -> None:
    with pytest.raises(ScriptError) as caught:
        from_source(text)
    assert str(caught.value).splitlines()[0] == message
