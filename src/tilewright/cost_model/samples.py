"""The measurements that a model learns from, workload by workload, and their file."""

from __future__ import annotations

import zipfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.cost_model.base import CostModel
from tilewright.cost_model.quality import RankingQuality, ranking_quality
from tilewright.errors import TuneError
from tilewright.features import FeatureExtractor, feature_extractors
from tilewright.ir import IRModule, structural_hash
from tilewright.records import FAILED_RUN_SECS, Candidates, RunnerResult, RunnerResults
from tilewright.space.base import TaskContext
from tilewright.support.files import replacing

Rows = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]
AnyArray: TypeAlias = npt.NDArray[Any]
FORMAT = "tilewright-cost-model-1"


def cost_of(result: RunnerResult) -> float:
    """The median running time; that of a failure without one."""
    return float(np.median(result.run_secs)) if result.run_secs else FAILED_RUN_SECS


def workload_key(mod: IRModule | None) -> str:
    """What groups are told apart by; tasks without a module share one."""
    return f"0x{0 if mod is None else structural_hash(mod):016x}"


@dataclass
class Group:
    """All samples of one workload, in the order they came."""

    features: list[Rows] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    priors: list[float] = field(default_factory=list)  # log2 of seconds; zeros without a prior
    num_trained: int = 0  # how many of them the model was trained on

    @property
    def min_cost(self) -> float:
        return min(self.costs, default=FAILED_RUN_SECS)

    def append(self, features: Sequence[Rows], costs: Vector, priors: Vector) -> None:
        self.features.extend(features)
        self.costs.extend(costs.tolist())
        self.priors.extend(priors.tolist())


@dataclass(frozen=True)
class FeatureGroup:
    """The samples of one workload as they are told to others."""

    group_hash: str
    features: list[Rows]
    costs: Vector


class SampleStore:
    """Groups of samples by workload."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    def group(self, key: str) -> Group:
        return self.groups.setdefault(key, Group())

    def as_feature_groups(self) -> dict[str, FeatureGroup]:
        """All samples by the hash of their workload; later ones do not change what was told."""
        return {
            key: FeatureGroup(key, list(group.features), np.array(group.costs))
            for key, group in self.groups.items()
        }

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups.values())

    def __len__(self) -> int:
        return sum(len(group.costs) for group in self)

    def as_arrays(self) -> dict[str, AnyArray]:
        """Everything, as arrays for a file."""
        features = [rows for group in self for rows in group.features]
        return {
            "keys": np.array(list(self.groups), dtype=np.str_),
            "sizes": np.array([len(group.costs) for group in self], dtype=np.int64),
            "num_trained": np.array([group.num_trained for group in self], dtype=np.int64),
            "costs": np.array([cost for group in self for cost in group.costs]),
            "priors": np.array([prior for group in self for prior in group.priors]),
            "num_rows": np.array([len(rows) for rows in features], dtype=np.int64),
            "rows": np.concatenate(features) if features else np.zeros((0, 0), np.float32),
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, AnyArray]) -> SampleStore:
        """What `as_arrays` gave."""
        store = SampleStore()
        ends = np.cumsum(arrays["num_rows"])[:-1]
        features = np.split(arrays["rows"], ends) if len(arrays["num_rows"]) else []
        start = 0
        for key, size, trained in zip(
            arrays["keys"], arrays["sizes"], arrays["num_trained"], strict=True
        ):
            here = slice(start, start + int(size))
            group = store.group(str(key))
            group.append(features[here], arrays["costs"][here], arrays["priors"][here])
            group.num_trained = int(trained)
            start = here.stop
        return store


class LearnedModel(CostModel):
    """A model that keeps all measurements, and learns from them.

    After each `update`, `last_quality` says how well it had ranked the new candidates.
    """

    def __init__(self, extractor: FeatureExtractor | str) -> None:
        self.extractor: FeatureExtractor | str = (
            feature_extractors.create(extractor) if isinstance(extractor, str) else extractor
        )
        self.last_quality: RankingQuality | None = None
        self._store = SampleStore()

    @property
    def num_samples(self) -> int:
        """How many measurements there are to learn from."""
        return len(self._store)

    def _extract(self, context: TaskContext, candidates: Candidates) -> list[Rows]:
        assert not isinstance(self.extractor, str)
        matrices = self.extractor.extract_from(context, candidates)
        return [np.asarray(matrix, dtype=np.float32) for matrix in matrices]

    def update(self, context: TaskContext, candidates: Candidates, results: RunnerResults) -> None:
        """Learn from measurements; a candidate without any store teaches nothing."""
        self.last_quality = None
        features = self._extract(context, candidates) if candidates else []
        if useful := [place for place, rows in enumerate(features) if len(rows)]:
            costs = np.array([cost_of(results[place]) for place in useful])
            kept = [candidates[place] for place in useful]
            self._learn(context, kept, [features[place] for place in useful], costs)

    @abstractmethod
    def _learn(
        self, context: TaskContext, candidates: Candidates, features: Sequence[Rows], costs: Vector
    ) -> None:
        """Keep what was measured of candidates with these features, and train."""

    def _note_quality(self, scores: Vector, costs: Vector) -> None:
        """Compare what the model said with what was measured."""
        ran = costs < FAILED_RUN_SECS
        self.last_quality = ranking_quality(scores[ran], costs[ran])


def write_arrays(path: str, kind: str, **arrays: AnyArray) -> None:
    """Write the arrays of a kind of model under exactly this name."""
    with replacing(path) as file:
        named = {"format": np.array(FORMAT), "kind": np.array(kind), **arrays}
        np.savez_compressed(file, **named)  # type: ignore[arg-type]  # none is `allow_pickle`


def read_arrays(path: str, kind: str) -> dict[str, AnyArray]:
    """Read what `write_arrays` wrote."""
    try:
        with np.load(path, allow_pickle=False) as loaded:
            arrays = dict(loaded)
    except FileNotFoundError:
        raise TuneError(f"there is no cost model at {path}; save one first") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise TuneError(f"{path} is not a cost model of ours: {error}") from None
    if str(arrays.get("format")) != FORMAT:
        raise TuneError(
            f"{path} is not a cost model that this version can read; expected {FORMAT},"
            f" found {arrays.get('format', 'nothing')}"
        )
    if str(arrays.get("kind")) != kind:
        raise TuneError(f"{path} holds a cost model of another kind: {arrays.get('kind')}")
    return arrays
