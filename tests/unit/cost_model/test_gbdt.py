"""Warm-up, priors, groups, adaptive training, metrics and files of the tree models."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.cost_model import GBDTConfig, GBDTModel, RankingQuality, XGBConfig, XGBModel
from tilewright.errors import TuneError
from tilewright.features import FeatureExtractor
from tilewright.ir import IRModule
from tilewright.records import FailureKind, MeasureCandidate, RunnerResult
from tilewright.testing.conformance.candidates import SmallContext, matmul_context
from tilewright.testing.te_workload import create_te_workload

Matrix = npt.NDArray[np.float64]
FAILED = RunnerResult(None, "made up", FailureKind.RUN_ERROR)


class Given(FeatureExtractor):
    """Takes the features of a candidate from the candidate itself."""

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[Matrix]:
        return list(candidates)


class FirstColumn:
    """A prior that is right about the first column and knows nothing else."""

    def score(self, context: Any, candidates: Sequence[Any]) -> Matrix:
        return np.array([4 * rows[:, 0].sum() - 15 for rows in candidates])


def samples(count: int, seed: int = 0) -> tuple[list[Any], Matrix]:
    """Candidates of two rows; log2 of the time is linear in the first two columns."""
    random = np.random.RandomState(seed)
    features = [random.rand(2, 6) for _ in range(count)]
    times = np.exp2([4 * rows[:, 0].sum() + 3 * rows[:, 1].sum() - 15 for rows in features])
    return features, times


def results(times: Matrix) -> list[RunnerResult]:
    return [RunnerResult((secs * 0.5, secs, secs * 9)) for secs in times]  # the median counts


def quality_of(model: GBDTModel) -> RankingQuality | None:
    return model.last_quality


def ranked_right(model: GBDTModel, context: Any = None) -> float:
    """The share of new pairs that the model ranks right."""
    features, times = samples(60, seed=99)
    scores = model.predict(context or matmul_context(), features)
    first, second = np.triu_indices(len(times), 1)
    return float(np.mean((scores[first] > scores[second]) == (times[first] < times[second])))


@pytest.mark.parametrize("make", [GBDTModel, XGBModel])
def test_scores_are_random_until_there_is_enough_data(make: type[GBDTModel]) -> None:
    model = make(extractor=Given())
    features, times = samples(120)
    context = matmul_context()
    model.update(context, features[:99], results(times[:99]))
    first, second = model.predict(context, features), model.predict(context, features)
    assert (first != second).all()
    assert ((first >= 0) & (first < 1)).all()
    np.testing.assert_array_equal(make(extractor=Given()).predict(context, features), first)
    assert model.last_quality is None  # random scores are no predictions
    model.update(context, features[99:], results(times[99:]))
    again = model.predict(context, features)
    np.testing.assert_array_equal(again, model.predict(context, features))
    assert ranked_right(model) > 0.75


def test_the_prior_ranks_until_there_is_enough_data() -> None:
    model = GBDTModel(extractor=Given(), prior=FirstColumn())
    features, times = samples(64)
    context = matmul_context()
    expected = np.exp2([15 - 4 * rows[:, 0].sum() for rows in features])
    np.testing.assert_allclose(model.predict(context, features), expected)
    model.update(context, features[:15], results(times[:15]))
    np.testing.assert_allclose(model.predict(context, features), expected)
    assert model.last_quality is not None
    with_prior_alone = ranked_right(model)
    model.update(context, features[15:], results(times[15:]))
    assert ranked_right(model) > with_prior_alone + 0.05


def test_what_the_prior_knows_need_not_be_learnt() -> None:
    features, times = samples(32)
    qualities = []
    for prior in (None, FirstColumn()):
        model = GBDTModel(extractor=Given(), prior=prior, num_warmup_samples=1)
        model.update(matmul_context(), features, results(times))
        qualities.append(ranked_right(model))
    assert qualities[1] > qualities[0]


def test_few_samples_move_the_prior_only_a_little() -> None:
    features, times = samples(128)
    probe = features[:50]
    moved = []
    for count in (4, 32, 128):
        model = GBDTModel(extractor=Given(), prior=FirstColumn(), num_warmup_samples=1)
        model.update(matmul_context(), features[:count], results(times[:count]))
        change = np.log2(model.predict(matmul_context(), probe)) + FirstColumn().score(None, probe)
        moved.append(float(np.std(change)))
    assert moved[0] < 0.5 * moved[1] < 0.5 * moved[2]


def test_scores_are_the_best_time_over_the_predicted_one() -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=1)
    features, times = samples(200)
    model.update(matmul_context(), features, results(times))
    scores = model.predict(matmul_context(), features)
    np.testing.assert_allclose(np.log2(times.min() / scores), np.log2(times), atol=2.5)
    assert 0.3 < scores.max() < 3


def test_failures_are_worse_than_anything_that_ran() -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=1, adaptive_training=False)
    features, times = samples(60)
    slow = [np.full((1, 6), 9.0) + number / 100 for number in range(20)]
    context = matmul_context()
    model.update(context, features + slow, [*results(times), *[FAILED] * 20])
    last: Any = np.full((1, 6), 9.1)
    scores = model.predict(context, [*features, last])
    assert scores[-1] <= np.quantile(scores[:-1], 0.1)
    assert model.last_training is not None
    assert model.last_training.p_rmse < 1.5  # not the distance to a made-up time of 1e10 seconds


@pytest.mark.parametrize("label", ["log_time", "throughput"])
def test_workloads_are_groups_of_their_own(label: str) -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=1, label=label)
    other = SmallContext(IRModule({"main": create_te_workload("NRM", 0)}), None)
    features, times = samples(64)
    model.update(matmul_context(), features, results(times))
    model.update(other, features, results(times * 1000))  # the same, only slower
    assert model.num_samples == 128
    assert ranked_right(model) > 0.75
    assert ranked_right(model, other) > 0.75
    if label == "log_time":
        np.testing.assert_allclose(
            model.predict(matmul_context(), features), model.predict(other, features)
        )


def test_training_waits_for_a_fifth_more_data() -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=1)
    features, times = samples(64)
    context = matmul_context()

    def watch_after(start: int, end: int) -> Any:
        model.update(context, features[start:end], results(times[start:end]))
        return model.last_training

    first = watch_after(0, 40)
    assert first.num_samples == 40
    assert watch_after(40, 47) is first
    assert watch_after(47, 48).num_samples == 48
    eager = GBDTModel(extractor=Given(), adaptive_training=False)
    for end in range(1, 4):
        eager.update(context, features[end - 1 : end], results(times[end - 1 : end]))
        assert eager.last_training is not None
        assert eager.last_training.num_samples == end


def test_candidates_without_stores_teach_nothing() -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=1)
    context = matmul_context()
    empty: Any = np.zeros((0, 6))
    model.update(context, [empty, empty], results(np.ones(2)))
    assert model.num_samples == 0
    features, times = samples(20)
    model.update(context, [*features, empty], results(np.append(times, 1.0)))
    assert model.num_samples == 20
    scores = model.predict(context, [features[0], empty])
    assert np.isfinite(scores).all()
    assert np.isfinite(model.predict(context, [empty])).all()


def test_training_stops_when_the_error_no_longer_falls(caplog: pytest.LogCaptureFixture) -> None:
    config = GBDTConfig(num_boost_round=40)
    model = GBDTModel(extractor=Given(), config=config, early_stopping_rounds=3, verbose_eval=5)
    same = [np.ones((1, 6))] * 8
    with caplog.at_level(logging.DEBUG, logger="tilewright.cost_model"):
        model.update(matmul_context(), same, results(np.ones(8)))  # type: ignore[arg-type]
    watch = model.last_training
    assert watch is not None
    assert watch.num_rounds == 4
    assert watch.best_round == 0
    assert watch.average_peak == 1.0
    assert "round   0: tr-p-rmse: 0.000000\ttr-a-peak@32: 1.000000" in caplog.text
    assert "stopped after 4 rounds on 8 samples" in caplog.text


def test_files_keep_samples_and_trees(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    features, times = samples(50)
    context = matmul_context()
    model = GBDTModel(extractor=Given(), num_warmup_samples=1, prior=FirstColumn())
    model.update(context, features[:40], results(times[:40]))
    model.update(context, features[40:44], results(times[40:44]))  # not trained on yet
    model.save(path)
    other = GBDTModel(extractor=Given(), num_warmup_samples=1, prior=FirstColumn())
    other.load(path)
    assert other.num_samples == 44
    assert other.last_training is not None
    assert other.last_training.num_samples == 40
    np.testing.assert_array_equal(
        model.predict(context, features), other.predict(context, features)
    )


def test_a_model_without_data_can_be_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    GBDTModel().save(path)
    model = GBDTModel()
    model.load(path)
    assert model.num_samples == 0


def test_files_that_are_no_models(tmp_path: Path) -> None:
    missing, text = tmp_path / "missing", tmp_path / "text"
    with pytest.raises(TuneError) as error:
        GBDTModel().load(str(missing))
    assert str(error.value) == f"there is no cost model at {missing}; save one first"
    text.write_text("no model")
    with pytest.raises(TuneError, match=r"text is not a cost model of ours: "):
        GBDTModel().load(str(text))
    with open(tmp_path / "arrays", "wb") as file:
        np.savez(file, format=np.array("something else"))
    with pytest.raises(TuneError) as error:
        GBDTModel().load(str(tmp_path / "arrays"))
    assert str(error.value) == (
        f"{tmp_path}/arrays is not a cost model that this version can read; expected"
        " tilewright-cost-model-1, found something else"
    )


def test_settings_of_tvm() -> None:
    model = XGBModel()
    assert model.config == XGBConfig(
        max_depth=10, gamma=0.001, min_child_weight=0, eta=0.2, seed=43, nthread=None
    )
    assert model.num_warmup_samples == 100
    assert model.label == "throughput"
    assert GBDTModel().label == XGBModel(prior=FirstColumn()).label == "log_time"
    assert GBDTConfig().booster_config(127, None).max_depth == 2
    assert GBDTConfig().booster_config(128, None).max_depth == 3
    assert GBDTConfig().booster_config(1, 4).nthread == 4
    assert GBDTConfig(nthread=2).booster_config(1, 4).nthread == 2


def test_bad_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TuneError) as error:
        GBDTModel(backend="catboost")
    assert str(error.value) == (
        "no trees are called 'catboost'; there are histogram, lightgbm, xgboost"
    )
    with pytest.raises(TuneError) as error:
        GBDTModel(label="speed")
    assert str(error.value) == "no label is called 'speed'; there are log_time, throughput"
    with pytest.raises(TuneError) as error:
        GBDTModel(label="throughput", prior=FirstColumn())
    assert str(error.value) == (
        "a prior predicts the logarithm of times; use label='log_time' with it"
    )
    monkeypatch.setattr("tilewright.cost_model.boosters.base.find_spec", lambda _: None)
    with pytest.raises(TuneError) as error:
        GBDTModel(backend="lightgbm")
    assert str(error.value) == (
        "lightgbm is not installed; `pip install lightgbm`, or use the backend 'histogram',"
        " which is always there"
    )
    bare = XGBModel(extractor=Given(), num_warmup_samples=1)
    features, times = samples(40)
    bare.update(matmul_context(), features, results(times))
    assert ranked_right(bare) > 0.6


def test_a_task_without_a_module() -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=1)
    features, times = samples(20)
    model.update(SmallContext(None, None), features, results(times))
    assert list(model.data) == ["0x0000000000000000"]
    assert model.predict(SmallContext(None, None), features).shape == (20,)


def test_quality_of_real_candidates_is_reported() -> None:
    model = GBDTModel(extractor=Given(), num_warmup_samples=20)
    features, times = samples(100)
    context = matmul_context()
    model.update(context, features[:60], results(times[:60]))
    assert quality_of(model) is None
    measured: list[RunnerResult] = [*results(times[60:99]), FAILED]
    model.update(context, features[60:], measured)
    quality = quality_of(model)
    assert quality is not None
    assert quality.num_samples == 39  # failures have no time to rank
    assert quality.pairwise_accuracy > 0.7
    assert quality.top_k == 9
    model.update(context, [], [])
    assert model.last_quality is None


def test_candidates_are_only_seen_by_the_extractor() -> None:
    candidate: MeasureCandidate = np.ones((2, 3))  # type: ignore[assignment]
    assert GBDTModel(extractor=Given()).predict(matmul_context(), [candidate]).shape == (1,)
