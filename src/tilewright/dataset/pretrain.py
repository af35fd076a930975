"""Cost models that were trained on a dataset, for tasks that are not in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from tilewright.cost_model.gbdt import GBDTConfig, GBDTModel
from tilewright.dataset.folder import Dataset, DatasetTask
from tilewright.errors import TuneError
from tilewright.features import feature_extractors
from tilewright.tune.context import TuneContext
from tilewright.tune.remembered import RememberedFeatures

# Many samples of many tasks: deeper trees than a search grows from its own few.
CONFIG = GBDTConfig(max_depth=6, num_boost_round=150)


def pretrain(
    dataset: Dataset,
    held_out: Collection[str] = (),
    path: str | Path | None = None,
) -> GBDTModel:
    """A model that learned all measurements but those of some models; written to a file if asked.

    Held out are whole models, and tasks of others that compute the same as one of theirs.
    """
    unknown = sorted(set(held_out) - set(dataset.models))
    if unknown:
        raise TuneError(f"the dataset has no model {unknown[0]!r} to hold out")
    own = {task.workload.shash for task in dataset.tasks(held_out)} if held_out else set()
    tasks = [t for t in dataset.tasks() if t.model not in held_out and t.workload.shash not in own]
    model = new_model()
    learn(model, dataset, tasks)
    if not model.num_samples:
        raise TuneError(f"there are no measurements in {dataset.folder}: measure candidates first")
    if path is not None:
        model.save(str(path))
    return model


def new_model() -> GBDTModel:
    """A model that learns times themselves.

    The model of a search learns what the prior gets wrong in its task. Between tasks that differs
    in sign: trees that learn it from others repeat the prior's errors elsewhere.
    """
    features = RememberedFeatures(feature_extractors.create("per-store-feature"))
    return GBDTModel(
        extractor=features, config=CONFIG, label="log_time", num_warmup_samples=1,
        num_tuning_cores=1,
    )  # fmt: skip


def load_pretrained(path: str | Path) -> GBDTModel:
    """The model of a file, for `tune_tir(..., cost_model=...)`."""
    model = new_model()
    model.load(str(path))
    return model


def learn(model: GBDTModel, dataset: Dataset, tasks: Iterable[DatasetTask]) -> None:
    """Tell a model about the measurements of tasks; programs that are the same count once."""
    seen: set[int] = set()
    for task in tasks:
        if task.workload.shash in seen:
            continue
        seen.add(task.workload.shash)
        replayed = [(r.as_candidate_or_none(), r.as_result()) for r in dataset.measurements(task)]
        pairs = [(candidate, result) for candidate, result in replayed if candidate is not None]
        if pairs:
            context = TuneContext(task.workload.mod, target=task.target, num_threads=1)
            model.update(context, [c for c, _ in pairs], [result for _, result in pairs])
