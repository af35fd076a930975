"""A script that comes as text is read, never run."""

from __future__ import annotations

import pytest

from tilewright.errors import ScriptError
from tilewright.script import from_source

HOSTILE = {
    "import": "__import__('os').system('true')",
    "open": "open('/etc/passwd').read()",
    "eval": "eval('1')",
    "getattr": "getattr(T, 'x')",
    "type": "type(1)",
    "class": "(1).__class__.__base__.__subclasses__()",
    "globals": "T.grid.__globals__",
    "module builtins": "T.__builtins__",
    "what T imports": "T.all_ops()",
    "what I imports": "I.registered_json_type('x')",
    "format": "'{0.__class__}'.format(1)",
    "format spec": "f'{1:>{10}}'",
    "conversion": "f'{T!r}'",
    "frame": "(x for x in [1]).gi_frame",
    "code": "(lambda x: x).func_code",
    "inside a lambda": "(lambda x: x.__class__)(1)",
    "inside a comprehension": "[x.__class__ for x in (1,)][0]",
    "walrus": "(y := 3)",
    "await": "(yield 1)",
}


def _text(value: str) -> str:
    return f"""
@T.prim_func
def f(a: T.Buffer((8,), "int32")):
    a[0] = {value}
"""


@pytest.mark.parametrize("attack", HOSTILE)
def test_text_cannot_reach_python(attack: str) -> None:
    with pytest.raises(ScriptError):
        from_source(_text(HOSTILE[attack]))


@pytest.mark.parametrize(
    "place",
    [
        "@T.prim_func\ndef f(a: T.Buffer((__import__('os').getpid(),))): pass",
        "@T.prim_func\ndef f(a: T.Buffer((8,)), b=print(1)): pass",
        "@I.ir_module\nclass M:\n    x = __import__('os')",
        "@T.prim_func\ndef f(a: T.Buffer((8,))):\n    for i in __import__('os').environ: pass",
        "@T.prim_func\ndef f(a: T.Buffer((8,))):\n    with open('x'): pass",
        "@T.prim_func\ndef f(a: T.Buffer((8,))):\n    import os",
        "@T.prim_func\ndef f(a: T.Buffer((8,))):\n    T.func_attr({'x': open})",
    ],
)
def test_no_place_of_a_text_is_run(place: str) -> None:
    with pytest.raises(ScriptError):
        from_source(place)


def test_decorators_are_recognised_by_being_there() -> None:
    """They are not evaluated, so nothing in them is run."""
    assert "def f" in str(from_source("@__import__('os').abort()\ndef f(): pass"))


def test_the_message_says_what_to_do() -> None:
    with pytest.raises(ScriptError) as caught:
        from_source(_text("(1).__class__"))
    assert str(caught.value).splitlines()[0] == (
        "the attribute '__class__' is not for scripts that come as text, which are read and never "
        "run; compute it in Python and pass it in `extra_names`"
    )


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("sum([x * x for x in range(4) if x != 2])", 10),
        ("sum(x + y for x, y in zip((1, 2), (3, 4)))", 10),
        ("len({x % 2 for x in range(5)}) + len({1, 2})", 4),
        ("{x: x + 1 for x in range(3)}[2]", 3),
        ("(lambda x, y: x - y)(5, 3)", 2),
        ("len(f'a{12}b')", 4),
        ("max(len('abc'), int('7'))", 7),
    ],
)
def test_text_may_compute(value: str, meaning: int) -> None:
    assert str(from_source(_text(value))) == str(from_source(_text(str(meaning))))


def test_a_caller_decides_what_else_it_may_use() -> None:
    given = from_source(_text("double(4)"), {"double": lambda x: 2 * x})
    assert str(given) == str(from_source(_text("8")))
