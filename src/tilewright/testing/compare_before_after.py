"""`CompareBeforeAfter`: a test that is a program, a transformation, and the expected program.

    class TestSimplify(CompareBeforeAfter):
        transform = tir.transform.Simplify()

        def before(A: T.Buffer((4,), "float32")):
            A[1 + 2] = 0.0

        def expected(A: T.Buffer((4,), "float32")):
            A[3] = 0.0

Each of the three may be a fixture of that name instead; what is expected may be an exception.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from tilewright.ir import IRModule, PrimFunc
from tilewright.script import ir as I, tir as T
from tilewright.testing.schedule_checks import assert_structural_equal_ignore_global_symbol


class CompareBeforeAfter:
    """Base of such tests; pytest finds `test_compare` in the classes derived from it."""

    before: Any
    expected: Any
    transform: Any

    def __init_subclass__(cls) -> None:
        for name in ("before", "expected"):
            if name in vars(cls):
                setattr(cls, name, _as_fixture(vars(cls)[name], _program))
        if "transform" in vars(cls):
            cls.transform = _as_fixture(vars(cls)["transform"], lambda value: value)

    def test_compare(self, before: Any, expected: Any, transform: Any) -> None:
        """The transformed program is the expected one, or the expected exception is raised."""
        import pytest  # optional

        module = IRModule({"main": before}) if isinstance(before, PrimFunc) else before
        if isinstance(expected, type) and issubclass(expected, Exception):
            with pytest.raises(expected):
                transform(module)
            return
        after = transform(module)
        if isinstance(expected, PrimFunc) and isinstance(after, IRModule):
            after = after["main"]
        assert_structural_equal_ignore_global_symbol(after, expected)


def _as_fixture(value: Any, convert: Any) -> Any:
    import pytest  # optional

    if _is_fixture(value):
        return value

    def fixture(self: Any) -> Any:
        return convert(value)

    return pytest.fixture(fixture)


def _is_fixture(value: Any) -> bool:
    return hasattr(value, "_pytestfixturefunction") or "Fixture" in type(value).__name__


def _program(value: Any) -> Any:
    """A function or class in script as a program; what is one already, or an exception, stays."""
    if isinstance(value, types.FunctionType):
        return T.prim_func(value)
    if inspect.isclass(value) and not issubclass(value, Exception):
        return I.ir_module(value)
    return value
