"""Families of operators that are made from a list of names."""

from __future__ import annotations

import types

import pytest

from tilewright.ir import intrinsics
from tilewright.topi import elementwise


@pytest.mark.parametrize("module", [intrinsics, elementwise])
def test_functions_are_found_under_their_names(module: types.ModuleType) -> None:
    own = [
        (name, made)
        for name, made in vars(module).items()
        if getattr(made, "__module__", "") == module.__name__ and not name.startswith("_")
    ]
    assert len(own) > 30
    assert not [name for name, made in own if getattr(module, made.__name__, None) is not made]
