"""VerifyGPUCode on programs at the limits of a GPU (TVM gives the same verdicts)."""

from __future__ import annotations

import pytest

from tilewright.errors import TargetError
from tilewright.nest.kernels import kernels_of
from tilewright.schedule import Schedule
from tilewright.space.gpu.shared_memory import shared_memory_bytes
from tilewright.space.postprocs import VerifyGPUCode
from tilewright.target import Target
from tilewright.testing.gpu_programs import (
    AT_THE_LIMITS,
    aligned_rows,
    guarded_fetch,
    one_after_another,
    pipelined,
    tiles_of_threads,
)
from tilewright.testing.space_generation import SpaceTask

TARGET = Target("nvidia/geforce-rtx-3070")


def verifier(target: Target, *, all_shared_memory: bool = False) -> VerifyGPUCode:
    made = VerifyGPUCode(all_shared_memory=all_shared_memory)
    made._initialize_with_tune_context(SpaceTask(target=target))
    return made


@pytest.mark.parametrize("name", AT_THE_LIMITS)
def test_verdicts(name: str) -> None:
    make, accepted = AT_THE_LIMITS[name]
    assert verifier(TARGET).apply(Schedule(make())) is accepted


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: one_after_another(100, 60, "shared"), 400),
        (lambda: tiles_of_threads(64, 16, "shared"), 64 * 16 * 4),
        (lambda: tiles_of_threads(64, 16, "local"), 0),
        (lambda: aligned_rows(10, 32, 8), 10 * 72 * 4),
        (lambda: pipelined(64, 1), 2 * 64 * 4),
        (lambda: pipelined(64, 3), 4 * 64 * 4),
        (lambda: guarded_fetch(1500), 1500 * 4),
    ],
)
def test_bytes_of_shared_memory(make, expected: int) -> None:  # type: ignore[no-untyped-def]
    (kernel,) = kernels_of(make())
    assert shared_memory_bytes(kernel) == expected


def test_all_limits_must_be_known() -> None:
    with pytest.raises(TargetError) as caught:
        verifier(Target("llvm"))
    assert str(caught.value).startswith(
        "VerifyGPUCode needs the target attribute 'max_shared_memory_per_block', but target "
    )


@pytest.mark.parametrize(
    ("rows", "accepted"), [(192, [True, True]), (193, [False, True]), (397, [False, False])]
)
def test_memory_that_kernels_ask_for(rows: int, accepted: list[bool]) -> None:
    """Every kernel has 48 KB; a GPU of this model has 99 KB for those that ask for it."""
    sch = Schedule(aligned_rows(rows, 32, 0))  # rows of 256 bytes
    verdicts = [verifier(TARGET, all_shared_memory=all_).apply(sch) for all_ in (False, True)]
    assert verdicts == accepted
