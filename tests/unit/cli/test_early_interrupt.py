"""Ctrl-C while a command starts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.cli.early_interrupt import EarlyInterrupt, early_interrupt
from tilewright.cli.programs import open_all

Step = Callable[[EarlyInterrupt], object]


def press(pending: EarlyInterrupt | None = None) -> None:
    signal.raise_signal(signal.SIGINT)


def run(*steps: Step) -> list[Step]:
    """The steps that were taken before the interrupt."""
    taken: list[Step] = []
    try:
        with early_interrupt() as pending:
            for step in steps:
                step(pending)
                taken.append(step)
    except KeyboardInterrupt:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return taken
    raise AssertionError("the interrupt was lost")


@pytest.mark.parametrize(
    ("steps", "taken"),
    [
        ((press, EarlyInterrupt.deliver), 1),  # it waits until there is something to end
        ((EarlyInterrupt.deliver, press), 1),  # later ones do not wait
        ((press, press), 1),  # whoever presses twice does not wait
        ((press,), 1),  # at the end it counts in any case
    ],
)
def test_when_it_counts(steps: tuple[Step, ...], taken: int) -> None:
    assert run(*steps) == list(steps[:taken])


def test_a_search_that_was_interrupted_before_it_began_has_a_result(
    command: Any, made_up_runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(texts: Any) -> Any:
        press()
        return open_all(texts)

    monkeypatch.setattr("tilewright.cli.tune.open_all", pressed)
    done = command("tune", "GMM:0", "--trials", "8", "--target", "llvm -num-cores=2", status=130)
    assert "found without a search" in done.out
    assert "interrupted after" in done.out
