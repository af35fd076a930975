"""`GBDTModel` and `XGBModel`: boosted trees on features of stores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

import numpy as np

from tilewright.cost_model import samples
from tilewright.cost_model.base import cost_models
from tilewright.cost_model.boosters import BoosterConfig, Trees, first_installed, kinds_named
from tilewright.cost_model.pack_sum import PackSum
from tilewright.cost_model.training import LABELS, RESIDUAL, Labels, TrainingWatch
from tilewright.errors import TuneError
from tilewright.features import FeatureExtractor
from tilewright.records import Candidates
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import TaskContext

__all__ = ["GBDTConfig", "XGBConfig", "Prior", "GBDTModel", "XGBModel"]

# Deeper trees pay only with more samples.
_MANY_SAMPLES = 128
_FEW_LEVELS, _MORE_LEVELS = 2, 3


@dataclass(frozen=True)
class GBDTConfig:
    """How trees are grown; the defaults are the best of trials on matrix products and convolutions.

    `max_depth=None` grows two levels, three from 128 samples on; `nthread=None` uses as many
    threads as the tuner may, one unless it says more.
    """

    max_depth: int | None = None
    gamma: float = 0.001
    min_child_weight: float = 2
    eta: float = 0.1
    seed: int = 43
    nthread: int | None = None
    reg_lambda: float = 4.0
    num_boost_round: int = 60

    def booster_config(self, num_samples: int, num_tuning_cores: int | None) -> BoosterConfig:
        """The settings for `num_samples` samples."""
        depth, threads = self.max_depth, self.nthread or num_tuning_cores or 1
        if depth is None:
            depth = _FEW_LEVELS if num_samples < _MANY_SAMPLES else _MORE_LEVELS
        return BoosterConfig(**{**asdict(self), "max_depth": depth, "nthread": threads})


@dataclass(frozen=True)
class XGBConfig(GBDTConfig):
    """The settings of TVM's model."""

    max_depth: int | None = 10
    min_child_weight: float = 0
    eta: float = 0.2
    reg_lambda: float = 1.0


_logger = logging.getLogger(__name__)
_WARMUP, _WARMUP_WITH_PRIOR = 100, 16
# Rows from which on a library grows trees as fast as we do.
_MANY_ROWS = 16_000


class Prior(Protocol):
    """Knows something about candidates before anything was measured."""

    def score(self, context: TaskContext, candidates: Candidates) -> samples.Vector:
        """An array: the predicted log2 of the seconds that each candidate takes."""


@cost_models.register("gbdt")
@dataclass(kw_only=True, eq=False)
class GBDTModel(samples.LearnedModel):
    """Boosted trees whose scores of rows add up to the score of a candidate.

    With a `prior` the trees learn what it gets wrong, and it ranks alone until there are
    `num_warmup_samples` (16) measurements. Without one, scores are random until there are 100.

    `backend` is "histogram" (our own trees), "lightgbm", "xgboost", or "auto": our own while there
    is little data, then LightGBM where it is installed. `label` is what trees learn: "log_time", or
    "throughput" as TVM does. After each `update`, `last_quality` says how well the model had ranked
    the new candidates.
    """

    backends: ClassVar[tuple[str, ...]] = ("lightgbm", "histogram")
    own_trees_first: ClassVar[bool] = True  # while there is little data
    default_label: ClassVar[str] = "log_time"
    default_config: ClassVar[GBDTConfig] = GBDTConfig()

    extractor: FeatureExtractor | str = "per-store-feature"
    config: GBDTConfig | None = None
    num_warmup_samples: int | None = None
    early_stopping_rounds: int = 50
    verbose_eval: int = 25
    average_peak_n: int = 32
    adaptive_training: bool = True
    num_tuning_cores: int | None = None
    prior: Prior | None = None
    backend: str = "auto"
    label: str | None = None

    def __post_init__(self) -> None:
        super().__init__(self.extractor)
        self.config = self._config = self.config or self.default_config
        if self.num_warmup_samples is None:
            self.num_warmup_samples = _WARMUP if self.prior is None else _WARMUP_WITH_PRIOR
        self._warmup = self.num_warmup_samples
        self._kinds = kinds_named(self.backends if self.backend == "auto" else (self.backend,))
        self._labels = self._checked_labels()
        self.last_training: TrainingWatch | None = None
        self._trees: Trees | None = None
        self._last_train_size = 0
        self._random = RandomEngine(self._config.seed)

    def _checked_labels(self) -> Labels:
        if self.label is None:
            self.label = self.default_label if self.prior is None else "log_time"
        if self.label not in LABELS:
            raise TuneError(f"no label is called {self.label!r}; there are {', '.join(LABELS)}")
        if self.prior is not None and self.label != "log_time":
            raise TuneError("a prior predicts the logarithm of times; use label='log_time' with it")
        return LABELS[self.label] if self.prior is None else RESIDUAL

    @property
    def data(self) -> dict[str, samples.FeatureGroup]:
        """The measurements to learn from, by workload."""
        return self._store.as_feature_groups()

    @property
    def data_size(self) -> int:
        """TVM's name of `num_samples`."""
        return self.num_samples

    # --- scores ---------------------------------------------------------------------------------

    def predict(self, context: TaskContext, candidates: Candidates) -> samples.Vector:
        if not candidates:
            return np.zeros(0)
        if self._uses_trees:
            features = self._extract(context, candidates)
            priors = self._prior_scores(context, candidates)
            group = self._store.groups.get(samples.workload_key(context.mod), samples.Group())
            return self._scores(group, features, priors)
        if self.prior is not None:
            return np.exp2(-self._prior_scores(context, candidates))
        return np.array([self._random.canonical() for _ in candidates])

    @property
    def _uses_trees(self) -> bool:
        return self._trees is not None and self.num_samples >= self._warmup

    def _scores(
        self, group: samples.Group, features: Sequence[samples.Rows], priors: samples.Vector
    ) -> samples.Vector:
        assert self._trees is not None
        data = PackSum(features)
        predicted = data.sum(self._trees.predict(data.rows)) if len(data.rows) else data.labels
        return self._labels.scores(predicted, priors, group)

    def _prior_scores(self, context: TaskContext, candidates: Candidates) -> samples.Vector:
        if self.prior is None:
            return np.zeros(len(candidates))
        return np.asarray(self.prior.score(context, candidates), dtype=np.float64)

    # --- learning -------------------------------------------------------------------------------

    def _learn(
        self,
        context: TaskContext,
        candidates: Candidates,
        features: Sequence[samples.Rows],
        costs: samples.Vector,
    ) -> None:
        priors = self._prior_scores(context, candidates)
        group = self._store.group(samples.workload_key(context.mod))
        if self._uses_trees:
            self._note_quality(self._scores(group, features, priors), costs)
        elif self.prior is not None:
            self._note_quality(-priors, costs)
        if self.last_quality is not None:
            _logger.debug("before training: %s", self.last_quality)
        group.append(features, costs, priors)
        grown = self.num_samples - self._last_train_size
        if not self.adaptive_training or grown >= self._last_train_size / 5:
            self._last_train_size = self.num_samples
            for group in self._store:
                group.num_trained = len(group.costs)
            self._train()

    def _train(self) -> None:
        """Grow trees on what is marked as trained on."""
        parts = [(group, group.num_trained) for group in self._store if group.num_trained]
        labels = [self._labels.of(group, count) for group, count in parts]
        features = [rows for group, count in parts for rows in group.features[:count]]
        data = PackSum(
            features,
            np.concatenate([values for values, _ in labels]),
            np.concatenate([weights for _, weights in labels]),
        )
        costs = [np.array(group.costs[:count]) for group, count in parts]
        watch = TrainingWatch(
            data,
            np.concatenate([own.min() / own for own in costs]),
            self._labels.rank,
            self.early_stopping_rounds,
            self.verbose_eval,
            self.average_peak_n,
        )
        config = self._config.booster_config(data.num_samples, self.num_tuning_cores)
        is_auto, is_small = self.backend == "auto", len(data.rows) < _MANY_ROWS
        has_own = is_auto and self.own_trees_first and is_small
        kind = self._kinds[-1] if has_own else first_installed(self._kinds)
        self._trees = kind.train(data, config, watch.on_round)
        watch.finish(self._trees.predict(data.rows))
        self.last_training = watch

    # --- files ----------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        state = np.array([self._last_train_size, self._random.state], dtype=np.int64)
        samples.write_arrays(path, "gbdt", state=state, **self._store.as_arrays())

    def load(self, path: str) -> None:
        """Go on from a file: the samples are read, the trees are grown again from them."""
        arrays = samples.read_arrays(path, "gbdt")
        self._store = samples.SampleStore.from_arrays(arrays)
        self._last_train_size, self._random.state = (int(value) for value in arrays["state"])
        self._trees = None
        if any(group.num_trained for group in self._store):
            self._train()


@cost_models.register("xgb")
@dataclass(kw_only=True, eq=False)
class XGBModel(GBDTModel):
    """The settings of TVM's model: deep trees that learn throughputs; XGBoost's if installed."""

    backends: ClassVar[tuple[str, ...]] = ("xgboost", "lightgbm", "histogram")
    own_trees_first: ClassVar[bool] = False
    default_label: ClassVar[str] = "throughput"
    default_config: ClassVar[GBDTConfig] = XGBConfig()
