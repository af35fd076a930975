"""A model while it is tuned: what is made once, what matters, and where the time goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.database import MemoryDatabase
from tilewright.graph import Graph, GraphBuilder, TensorType
from tilewright.model import kernels
from tilewright.model.finals import ModelFinal
from tilewright.model.tuning import ModelTuning, final_secs, with_defaults
from tilewright.target import Target
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.tune.events import Event, TuningStarted

_TARGET = Target("llvm -num-cores=2")
_QUICK: dict[str, Any] = {
    "builder": NoBuilder(),
    "cost_model": "random",
    "strategy": "replay-trace",
    "check": False,
    "console": False,
    "seed": 3,
}


def two_layers() -> Graph:
    """A product, and a sum that takes next to nothing."""
    net = GraphBuilder()
    x = net.input("x", TensorType((64, 256), "float32"))
    weight = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    wide = net.call("nn.relu", net.call("nn.dense", x, net.constant(weight)))
    return net.graph([wide, net.call("nn.softmax", net.input("z", TensorType((2, 2), "float32")))])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are compiled."""
    seen: list[str] = []
    make = kernels.compiled

    def counting(module: Any, target: Target) -> Any:
        seen.extend(module.functions)
        return make(module, target)

    monkeypatch.setattr(kernels, "compiled", counting)
    return seen


def test_a_program_is_compiled_once(compiled: list[str]) -> None:
    tuning = ModelTuning(two_layers(), _TARGET)
    first = tuning.calculated
    assert len(compiled) == 2
    assert tuning.calculated is first
    tuning.compile(MemoryDatabase())  # which knows nothing
    assert len(compiled) == 2


def test_tuning_starts_what_matters_and_ends_with_a_comparison(compiled: list[str]) -> None:
    events: list[Event] = []
    finals: list[ModelFinal] = []
    tuning = ModelTuning(two_layers(), _TARGET)
    database = tuning.tune(
        finals.append, max_trials_global=8, database="memory", runner=MadeUp(),
        observers=[events.append], **_QUICK,
    )  # fmt: skip
    (started,) = [event for event in events if isinstance(event, TuningStarted)]
    trials = {task.ctx.task_name: task.trials for task in started.tasks}
    assert trials.pop("fused_nn_dense_nn_relu") > 0
    assert all(task.expected_secs for task in started.tasks)
    (final,) = finals
    assert final.secs <= final.calculated_secs  # slower ones are not taken
    before = len(compiled)
    tuning.compile(database)
    assert len(compiled) == before


def test_time_is_kept_for_the_end() -> None:
    tuning = ModelTuning(two_layers(), _TARGET)
    tuning._compile_secs = 5.0
    assert tuning._left(budget=600.0, used=20.0, final_secs=10.0) == 565.0
    tuning._compile_secs = 500.0  # no more than a part of it
    assert tuning._left(budget=600.0, used=20.0, final_secs=10.0) == 400.0
    assert tuning._left(budget=60.0, used=70.0, final_secs=1.0) == pytest.approx(0.6)
    assert (final_secs({"budget_secs": 100.0}), final_secs({"budget_secs": 900.0})) == (3.0, 10.0)


def test_rounds_are_small_where_tasks_are_many() -> None:
    assert with_defaults({"max_trials_global": 640}, 10)["num_trials_per_iter"] == 16
    assert with_defaults({"max_trials_global": 64}, 10)["num_trials_per_iter"] == 4
    assert "num_trials_per_iter" not in with_defaults({"budget_secs": 10.0}, 10)
