"""The interface of networks; the settings and parameters that all implementations share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.pack_sum import PackSum


@dataclass(frozen=True)
class SegmentSumMLPConfig:
    """The shape of the network: rows are encoded, summed for each candidate, and scored."""

    input_dim: int = 172
    hidden_dim: int = 256
    output_dim: int = 1
    use_norm: bool = False
    use_sigmoid: bool = False


@dataclass(frozen=True)
class TrainerConfig:
    """How the network is trained; `frozen` keeps it as it is."""

    batch_size: int = 128
    learning_rate: float = 7e-4
    weight_decay: float = 1e-6
    num_epoch_full: int = 50
    num_epoch_incremental: int = 5
    grad_clip_norm: float = 0.5
    train_verbose: int = 1000
    test_interval: int = 1
    test_split: float = 0.2
    frozen: bool = False


Array = npt.NDArray[np.float64]
Parameters = dict[str, Array]
# What normalisation saw in training; moved by each batch, not by gradients.
NORM_MEAN, NORM_VARIANCE = "norm.mean", "norm.variance"
NORM_MOMENTUM, NORM_EPSILON = 0.1, 1e-5


class Network(ABC):
    """A network with its optimiser."""

    def __init__(
        self, config: SegmentSumMLPConfig, trainer: TrainerConfig, parameters: Parameters
    ) -> None:
        self._config = config
        self._trainer = trainer
        self.set_parameters(parameters)

    @abstractmethod
    def scores(self, batch: PackSum) -> Array:
        """One score for each candidate."""

    @abstractmethod
    def step(self, batch: PackSum, learning_rate: float) -> float:
        """Take one step towards a better ranking of the batch; the loss before it."""

    @abstractmethod
    def parameters(self) -> Parameters:
        """All weights, by name."""

    @abstractmethod
    def set_parameters(self, parameters: Parameters) -> None:
        """Go on with these weights."""


def layer_sizes(config: SegmentSumMLPConfig) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of each layer."""
    hidden = config.hidden_dim
    return {
        "encoder_0": (config.input_dim, hidden),
        "encoder_1": (hidden, hidden),
        "residual_0": (hidden, hidden),
        "residual_1": (hidden, hidden),
        "decoder": (hidden, config.output_dim),
    }


def fresh_parameters(config: SegmentSumMLPConfig, seed: int) -> Parameters:
    """Random weights, as usual for such layers: uniform within one over the root of the inputs."""
    random = np.random.RandomState(seed)
    parameters: Parameters = {}
    for name, (inputs, outputs) in layer_sizes(config).items():
        limit = 1.0 / np.sqrt(inputs)
        parameters[f"{name}.weight"] = random.uniform(-limit, limit, (inputs, outputs))
        parameters[f"{name}.bias"] = random.uniform(-limit, limit, outputs)
    if config.use_norm:
        parameters["norm.weight"] = np.ones(config.hidden_dim)
        parameters["norm.bias"] = np.zeros(config.hidden_dim)
        parameters[NORM_MEAN] = np.zeros(config.hidden_dim)
        parameters[NORM_VARIANCE] = np.ones(config.hidden_dim)
    return parameters


Order = npt.NDArray[np.intp]
_EPSILON = 1e-10


def pair_weights(scores: Array, labels: Array) -> tuple[Order, Array]:
    """The order of the scores, and the weight of each pair in that order.

    Entry `i, j` is zero unless the sample at place `i` has the larger label.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = labels[order]
    discounts = np.log2(np.arange(len(labels)) + 2.0)
    ideal = ((np.exp2(np.sort(labels)[::-1]) - 1) / discounts).sum()
    gains = (np.exp2(ranked) - 1) / max(ideal, _EPSILON)
    moved = np.abs(1 / discounts[:, None] - 1 / discounts[None, :])
    swapped = moved * np.abs(gains[:, None] - gains[None, :])
    weights: Array = np.where(ranked[:, None] > ranked[None, :], swapped, 0.0)
    return order, weights


def loss_and_gradient(scores: Array, labels: Array) -> tuple[float, Array]:
    """The LambdaRank loss of scores, and its derivative with respect to each of them.

    Every pair in the wrong order costs what swapping it would gain in NDCG.
    """
    order, weights = pair_weights(scores, labels)
    ranked = scores[order]
    right = 0.5 * (1 + np.tanh(0.5 * (ranked[:, None] - ranked[None, :])))  # the sigmoid
    loss = -(weights * np.log2(np.maximum(right, _EPSILON))).sum()
    slope = -weights * (1 - right) / np.log(2)
    gradient = np.zeros_like(scores)
    gradient[order] = slope.sum(axis=1) - slope.sum(axis=0)
    return float(loss), gradient
