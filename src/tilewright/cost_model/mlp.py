"""`MLPModel`: a network that learns to rank."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.cost_model import networks
from tilewright.cost_model.base import cost_models
from tilewright.cost_model.pack_sum import PackSum
from tilewright.cost_model.quality import ranking_quality
from tilewright.cost_model.samples import (
    Group,
    LearnedModel,
    Rows,
    SampleStore,
    Vector,
    read_arrays,
    workload_key,
    write_arrays,
)
from tilewright.errors import TuneError
from tilewright.features import FeatureExtractor, PerStoreFeature
from tilewright.records import Candidates
from tilewright.space.base import TaskContext

_logger = logging.getLogger(__name__)
_GROWTH_FOR_FULL_TRAINING = 0.2
_DECAY, _DECAYS = 0.8, 10  # the learning rate falls so often during a full training
_SMOOTHING = 0.95
_PARAMETER = "parameter."


@cost_models.register("mlp")
class MLPModel(LearnedModel):
    """A network on rows, summed for each candidate, trained with LambdaRank.

    It trains from the current weights: a little on each new batch, on everything once the data has
    grown by a fifth. Columns are scaled by the largest values seen in training. `backend` is
    "torch", "numpy" or "auto" (PyTorch where it is installed).
    """

    def __init__(
        self,
        *,
        config: networks.SegmentSumMLPConfig | None = None,
        trainer: networks.TrainerConfig | None = None,
        extractor: FeatureExtractor | None = None,
        backend: str = "auto",
        seed: int = 43,
    ) -> None:
        self.config = config or networks.SegmentSumMLPConfig()
        self.trainer = trainer or networks.TrainerConfig()
        super().__init__(extractor or PerStoreFeature(extract_workload=True))
        self.seed = seed
        self.backend = backend
        self._scale = np.ones(self.config.input_dim)
        self._full_training_size = 0
        parameters = networks.fresh_parameters(self.config, seed)
        self._network = networks.network_named(backend)(self.config, self.trainer, parameters)

    # --- scores ---------------------------------------------------------------------------------

    def predict(self, context: TaskContext, candidates: Candidates) -> Vector:
        return self._scores(self._extract(context, candidates))

    def _extract(self, context: TaskContext, candidates: Candidates) -> list[Rows]:
        matrices = super()._extract(context, candidates)
        for matrix in matrices:
            if matrix.shape[1] != self.config.input_dim:
                raise TuneError(
                    f"the network takes {self.config.input_dim} columns, the features have"
                    f" {matrix.shape[1]}; set SegmentSumMLPConfig(input_dim=...) to match"
                )
        return matrices

    def _scores(self, features: Sequence[Rows]) -> Vector:
        size = self.trainer.batch_size
        parts = [
            self._network.scores(self._batch(features[start : start + size]))
            for start in range(0, len(features), size)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _batch(self, features: Sequence[Rows], labels: Vector | None = None) -> PackSum:
        return PackSum([rows / self._scale for rows in features], labels)

    # --- learning -------------------------------------------------------------------------------

    def _learn(
        self, context: TaskContext, candidates: Candidates, features: Sequence[Rows], costs: Vector
    ) -> None:
        if self._full_training_size:
            self._note_quality(self._scores(features), costs)
        group = self._store.group(workload_key(context.mod))
        group.append(features, costs, np.zeros(len(costs)))
        group.num_trained = len(group.costs)
        if not self.trainer.frozen:
            self._train(features, costs)

    def _train(self, features: Sequence[Rows], costs: Vector) -> None:
        self._network.set_parameters(self._network.parameters())  # the optimiser starts afresh
        grown = self.num_samples - self._full_training_size
        if grown <= _GROWTH_FOR_FULL_TRAINING * self._full_training_size:
            batch = self._batch(features, costs.min() / costs)
            for _ in range(self.trainer.num_epoch_incremental):
                self._network.step(batch, self.trainer.learning_rate)
            return
        self._full_training_size = self.num_samples
        self._train_on_all()

    def _train_on_all(self) -> None:
        """Every sample, in mixed batches; the weights that did best on held-out workloads stay."""
        trainer = self.trainer
        rows = np.concatenate([rows for group in self._store for rows in group.features])
        largest = np.abs(rows).max(axis=0)
        self._scale = np.where(largest > 0, largest, 1.0)
        random = np.random.RandomState(self.seed + self.num_samples)
        train, test = self._split_groups(random)
        best_loss, best = float("inf"), self._network.parameters()
        rate, smooth = trainer.learning_rate, 0.0
        every = max(1, trainer.num_epoch_full // _DECAYS)
        for epoch in range(trainer.num_epoch_full):
            for batch in self._batches(train, random):
                loss = self._network.step(batch, rate)
                smooth = loss if smooth == 0 else smooth * _SMOOTHING + loss * (1 - _SMOOTHING)
            if test and epoch % trainer.test_interval == 0:
                wrong = self._error(test)
                if wrong < best_loss:
                    best_loss, best = wrong, self._network.parameters()
            if epoch % every == every - 1:
                rate *= _DECAY
        if test:
            self._network.set_parameters(best)
        _logger.debug("trained on %d samples, smoothed loss %.4f", self.num_samples, smooth)

    def _split_groups(self, random: np.random.RandomState) -> tuple[list[Group], list[Group]]:
        groups = list(self._store)
        order = random.permutation(len(groups))
        held_out = int(len(groups) * self.trainer.test_split)
        return [groups[i] for i in order[held_out:]], [groups[i] for i in order[:held_out]]

    def _batches(self, groups: Sequence[Group], random: np.random.RandomState) -> Iterator[PackSum]:
        features = [rows for group in groups for rows in group.features]
        labels = np.concatenate([group.min_cost / np.array(group.costs) for group in groups])
        order, size = random.permutation(len(features)), self.trainer.batch_size
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            yield self._batch([features[i] for i in chosen], labels[chosen])

    def _error(self, groups: Sequence[Group]) -> float:
        """The share of pairs that is ranked wrongly."""
        qualities = [
            ranking_quality(self._scores(group.features), np.array(group.costs)) for group in groups
        ]
        known = [quality.pairwise_accuracy for quality in qualities if quality is not None]
        return 1 - float(np.mean(known)) if known else 0.0

    # --- files ----------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        named = {_PARAMETER + name: value for name, value in self._network.parameters().items()}
        size = np.array(self._full_training_size)
        arrays = {**self._store.as_arrays(), **named, "scale": self._scale, "full_size": size}
        write_arrays(path, "mlp", **arrays)

    def load(self, path: str) -> None:
        arrays = read_arrays(path, "mlp")
        self._store = SampleStore.from_arrays(arrays)
        self._scale = arrays["scale"]
        self._full_training_size = int(arrays["full_size"])
        self._network.set_parameters(
            {
                name.removeprefix(_PARAMETER): value
                for name, value in arrays.items()
                if name.startswith(_PARAMETER)
            }
        )
