"""The network: gradients against differences, learning, files, and PyTorch's twin."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model import MLPModel, SegmentSumMLPConfig, TrainerConfig
from tilewright.cost_model.networks import fresh_parameters, network_named
from tilewright.cost_model.networks.base import Parameters, loss_and_gradient
from tilewright.cost_model.networks.numpy_network import NumPyNetwork
from tilewright.cost_model.pack_sum import PackSum
from tilewright.errors import TuneError
from tilewright.features import FeatureExtractor
from tilewright.ir import IRModule
from tilewright.records import RunnerResult
from tilewright.testing.conformance.candidates import SmallContext, matmul_context
from tilewright.testing.te_workload import create_te_workload

Matrix = npt.NDArray[np.float64]
WIDTH = 5
PLAIN = SegmentSumMLPConfig(input_dim=WIDTH, hidden_dim=7)
VARIANTS = [
    PLAIN,
    SegmentSumMLPConfig(input_dim=WIDTH, hidden_dim=7, use_norm=True),
    SegmentSumMLPConfig(input_dim=WIDTH, hidden_dim=7, use_sigmoid=True),
]


class Given(FeatureExtractor):
    """Takes the features of a candidate from the candidate itself."""

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[Matrix]:
        return list(candidates)


def batch(count: int = 12, seed: int = 0) -> PackSum:
    random = np.random.RandomState(seed)
    features = [random.rand(random.randint(1, 4), WIDTH) for _ in range(count)]
    return PackSum(features, random.rand(count))


def test_loss_and_its_gradient() -> None:
    random = np.random.RandomState(1)
    scores, labels = random.randn(9), random.rand(9)
    loss, gradient = loss_and_gradient(scores, labels)
    for place in range(9):
        moved = scores.copy()
        moved[place] += 1e-7
        difference = (loss_and_gradient(moved, labels)[0] - loss) / 1e-7
        assert gradient[place] == pytest.approx(difference, abs=1e-5)
    right, _ = loss_and_gradient(100 * labels, labels)
    wrong, _ = loss_and_gradient(-100 * labels, labels)
    assert right < 0.1 * loss < wrong


@pytest.mark.parametrize("config", VARIANTS, ids=["plain", "norm", "sigmoid"])
def test_gradients_of_the_network(config: SegmentSumMLPConfig) -> None:
    """A first step of plain size moves each weight against the slope of the loss."""
    data = batch()
    start = fresh_parameters(config, seed=2)
    trainer = TrainerConfig(weight_decay=0.0, grad_clip_norm=1e9)

    def loss_at(parameters: Parameters) -> float:
        return NumPyNetwork(config, trainer, parameters).step(data, 0.0)

    network = NumPyNetwork(config, trainer, start)
    network.step(data, 1e-3)
    stepped = network.parameters()
    for name in ("encoder_0.weight", "encoder_1.bias", "residual_1.weight", "decoder.weight"):
        place = np.unravel_index(3, start[name].shape)
        slopes = []
        for sign in (1, -1):
            moved = {key: value.copy() for key, value in start.items()}
            moved[name][place] += sign * 1e-6
            slopes.append(loss_at(moved))
        slope = (slopes[0] - slopes[1]) / 2e-6
        move = stepped[name][place] - start[name][place]
        if abs(slope) > 1e-5:
            assert move == pytest.approx(-1e-3 * np.sign(slope), rel=1e-2), name


def test_norm_remembers_what_it_saw() -> None:
    config = VARIANTS[1]
    network = NumPyNetwork(config, TrainerConfig(), fresh_parameters(config, seed=2))
    data = batch(40)
    for _ in range(100):
        network.step(data, 0.0)
    alone = [network.scores(PackSum([data.rows[data.ids == i]]))[0] for i in range(40)]
    np.testing.assert_allclose(alone, network.scores(data))
    assert np.std(alone) > 0.01


def samples(count: int, seed: int = 0) -> tuple[list[Any], list[RunnerResult], Matrix]:
    random = np.random.RandomState(seed)
    features = [random.rand(random.randint(1, 4), WIDTH) * 20 for _ in range(count)]
    times = np.array([1e-3 * (1 + (rows[:, 0] + rows[:, 3]).sum()) for rows in features])
    return features, [RunnerResult((secs,)) for secs in times], times


def small(backend: str = "numpy", **settings: Any) -> MLPModel:
    config = SegmentSumMLPConfig(input_dim=WIDTH, hidden_dim=16)
    trainer = TrainerConfig(learning_rate=5e-3, **settings)
    return MLPModel(config=config, trainer=trainer, extractor=Given(), backend=backend)


def ranked_right(model: MLPModel) -> float:
    features, _, times = samples(50, seed=9)
    scores = model.predict(matmul_context(), features)
    first, second = np.triu_indices(len(times), 1)
    return float(np.mean((scores[first] > scores[second]) == (times[first] < times[second])))


def test_it_learns_to_rank() -> None:
    model = small()
    features, results, _ = samples(80)
    model.update(matmul_context(), features, results)
    assert getattr(model, "last_quality") is None  # noqa: B009 - mypy would remember it
    assert ranked_right(model) > 0.8
    more, more_results, _ = samples(12, seed=3)
    before = model.predict(matmul_context(), more)
    model.update(matmul_context(), more, more_results)  # a little more: a few steps only
    assert model.last_quality is not None
    assert model.last_quality.pairwise_accuracy > 0.75
    assert model.num_samples == 92
    assert not np.allclose(before, model.predict(matmul_context(), more))


def test_a_frozen_model_stays_as_it_is() -> None:
    model = small(frozen=True)
    features, results, _ = samples(20)
    before = model.predict(matmul_context(), features)
    model.update(matmul_context(), features, results)
    np.testing.assert_array_equal(before, model.predict(matmul_context(), features))
    assert model.num_samples == 20


def test_workloads_are_held_out_when_there_are_many() -> None:
    model = small(num_epoch_full=20)
    for number, name in enumerate(("GMM", "NRM", "SFM", "C1D", "DEP")):
        context = SmallContext(IRModule({"main": create_te_workload(name, 0)}), None)
        features, results, _ = samples(30, seed=number)
        model.update(context, features, results)
    assert ranked_right(model) > 0.85


def test_files(tmp_path: Path) -> None:
    model, other = small(), small()
    features, results, _ = samples(20)
    model.update(matmul_context(), features, results)
    model.save(str(tmp_path / "mlp"))
    other.load(str(tmp_path / "mlp"))
    np.testing.assert_array_equal(
        model.predict(matmul_context(), features), other.predict(matmul_context(), features)
    )
    assert other.num_samples == 20


def test_bad_settings() -> None:
    with pytest.raises(TuneError) as error:
        MLPModel(backend="jax")
    assert str(error.value) == "no network is called 'jax'; there are auto, numpy, torch"
    with pytest.raises(TuneError) as error:
        MLPModel(extractor=Given()).predict(matmul_context(), [np.ones((1, 3))])  # type: ignore[list-item]
    assert str(error.value) == (
        "the network takes 172 columns, the features have 3;"
        " set SegmentSumMLPConfig(input_dim=...) to match"
    )


def test_torch_is_asked_for_but_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cost_model.networks.find_spec", lambda _: None)
    assert network_named("auto") is NumPyNetwork
    with pytest.raises(TuneError) as error:
        network_named("torch")
    assert str(error.value) == (
        "PyTorch is not installed; `pip install torch`, or use backend='numpy'"
    )


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("config", VARIANTS, ids=["plain", "norm", "sigmoid"])
def test_torch_takes_the_same_steps(config: SegmentSumMLPConfig) -> None:
    start = fresh_parameters(config, seed=4)
    ours, theirs = (
        network_named(name)(config, TrainerConfig(), start) for name in ("numpy", "torch")
    )
    for number in range(5):
        data = batch(seed=number)
        assert ours.step(data, 1e-3) == pytest.approx(theirs.step(data, 1e-3))
    np.testing.assert_allclose(ours.scores(batch()), theirs.scores(batch()), rtol=1e-6)
