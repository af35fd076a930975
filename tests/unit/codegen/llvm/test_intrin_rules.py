"""The registry of rules that say how a target spells an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.errors import RegistryError
from tilewright.target.intrin_rules import (
    find_intrin_rule,
    register_intrin_rule,
    remove_intrin_rule,
)

NAME = "test_operator_of_rules"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    for target in ("llvm", "default", "cuda"):
        remove_intrin_rule(target, NAME)


def first(call: object) -> object:
    return call


def second(call: object) -> object:
    return call


def test_a_rule_is_found_under_its_full_name() -> None:
    register_intrin_rule("llvm", NAME, first)
    assert find_intrin_rule("llvm", f"tir.{NAME}") is first
    assert find_intrin_rule("cuda", f"tir.{NAME}") is None


def test_the_rule_of_the_target_wins_over_the_default() -> None:
    register_intrin_rule("default", NAME, first)
    assert find_intrin_rule("cuda", f"tir.{NAME}") is first
    register_intrin_rule("cuda", f"tir.{NAME}", second)
    assert find_intrin_rule("cuda", f"tir.{NAME}") is second


def test_replacing_needs_override() -> None:
    register_intrin_rule("llvm", NAME, first)
    with pytest.raises(RegistryError) as caught:
        register_intrin_rule("llvm", NAME, second)
    assert str(caught.value) == (
        f"target 'llvm' has a rule for 'tir.{NAME}' already; pass override=True to replace it"
    )
    register_intrin_rule("llvm", NAME, second, override=True)
    assert find_intrin_rule("llvm", f"tir.{NAME}") is second


def test_registration_as_a_decorator() -> None:
    @register_intrin_rule("llvm", NAME)  # type: ignore[untyped-decorator]
    def rule(call: object) -> object:
        return call

    assert find_intrin_rule("llvm", f"tir.{NAME}") is rule


def test_removed_rules_are_forgotten() -> None:
    register_intrin_rule("llvm", NAME, first)
    remove_intrin_rule("llvm", NAME)
    remove_intrin_rule("llvm", NAME)
    assert find_intrin_rule("llvm", f"tir.{NAME}") is None
