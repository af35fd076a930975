"""Weights with a layout of their own are packed outside of what is measured."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.measure import LocalRunner
from tilewright.records import RunnerInput, args_info_of
from tilewright.testing.packed_programs import dense, with_packed_weights


def test_measured_and_checked(
    runner: LocalRunner, artifact: Callable[[PrimFunc | IRModule], str]
) -> None:
    infos = args_info_of(as_module(dense))
    given = RunnerInput(artifact(with_packed_weights()), "llvm", infos, artifact(dense))
    (future,) = runner.run([given])
    assert future.result().failure is None, future.result().error_msg
    assert future.result().checked
