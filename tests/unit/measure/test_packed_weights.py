"""Weights with a layout of their own: packing is measured unless they are bound."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.ir import IRModule, PrimFunc, as_module, structural_equal
from tilewright.measure import LocalRunner
from tilewright.records import MeasureCandidate, RunnerInput, args_info_of, normalize_mod
from tilewright.schedule import Schedule
from tilewright.space.layout_free import has_bound_weights, other_way_to_call, with_bound_weights
from tilewright.target import Target
from tilewright.testing.packed_programs import dense, with_packed_weights
from tilewright.tune.measuring import build_input


def test_measured_and_checked(
    runner: LocalRunner, artifact: Callable[[PrimFunc | IRModule], str]
) -> None:
    infos = args_info_of(as_module(dense))
    given = RunnerInput(artifact(with_packed_weights()), "llvm", infos, artifact(dense))
    (future,) = runner.run([given])
    assert future.result().failure is None, future.result().error_msg
    assert future.result().checked


@pytest.mark.parametrize("bound", [False, True])
def test_packing_is_measured_unless_weights_are_bound(bound: bool) -> None:
    mod = with_packed_weights()
    mod = with_bound_weights(mod) if bound else mod
    built = build_input(MeasureCandidate(Schedule(mod), ()), Target("llvm"))
    assert list(built.mod.functions) == (["main", "main.pack.1"] if bound else ["main"])


def test_only_functions_with_weights_can_have_them_bound() -> None:
    plain = normalize_mod(dense.without_attr("layout_free_buffers"))
    assert with_bound_weights(plain) is plain
    bound = with_bound_weights(normalize_mod(dense))["main"]
    assert has_bound_weights(bound)
    other = other_way_to_call(bound)
    assert other is not None
    assert structural_equal(other, normalize_mod(dense)["main"])
    assert other_way_to_call(plain["main"]) is None
