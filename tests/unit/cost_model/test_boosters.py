"""Trees of our own, and the sums they are trained on."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from tilewright.cost_model.boosters import HISTOGRAM, LIGHTGBM, XGBOOST, BoosterConfig, BoosterKind
from tilewright.cost_model.boosters.histogram import ROWS_PER_TREE, train_histogram
from tilewright.cost_model.pack_sum import PackSum, average_peak

CONFIG = BoosterConfig(
    max_depth=3,
    eta=0.3,
    gamma=0.001,
    min_child_weight=1,
    reg_lambda=0.0,
    num_boost_round=60,
    seed=1,
    nthread=1,
)


def keep_going(number: int, scores: object) -> bool:
    return True


def data(count: int = 80, seed: int = 0) -> PackSum:
    random = np.random.RandomState(seed)
    features = [random.rand(random.randint(1, 4), 5) for _ in range(count)]
    labels = np.array([(rows[:, 0] > 0.5).sum() + 2 * rows[:, 3].sum() for rows in features])
    return PackSum(features, labels, np.ones(count))


@pytest.mark.parametrize("kind", [HISTOGRAM, LIGHTGBM, XGBOOST], ids=lambda kind: kind.name)
def test_sums_of_rows_are_learnt(kind: BoosterKind) -> None:
    if not kind.installed:
        pytest.skip(f"{kind.name} is not installed")
    train, test = data(), data(200, seed=5)
    rounds: list[int] = []

    def watch(number: int, scores: object) -> bool:
        rounds.append(number)
        return True

    trees = kind.train(train, replace(CONFIG, reg_lambda=1.0), watch)
    assert rounds[:3] == [0, 1, 2]
    assert train.rmse(trees.predict(train.rows)) < 0.25
    assert test.rmse(trees.predict(test.rows)) < 0.6 < test.labels.std()


@pytest.mark.parametrize("kind", [HISTOGRAM, LIGHTGBM, XGBOOST], ids=lambda kind: kind.name)
def test_labels_that_are_all_far_from_zero(kind: BoosterKind) -> None:
    """While they are, regularisation makes every split a loss."""
    if not kind.installed:
        pytest.skip(f"{kind.name} is not installed")
    random = np.random.RandomState(0)
    features = [random.rand(4, 30) for _ in range(200)]
    labels = np.array([30 + rows[:, :2].sum() for rows in features])
    pack = PackSum(features, labels, np.ones(len(labels)))
    trees = kind.train(pack, replace(CONFIG, reg_lambda=4.0), keep_going)
    assert pack.rmse(trees.predict(pack.rows)) < 0.7 * labels.std()


@pytest.mark.parametrize("kind", [HISTOGRAM, LIGHTGBM, XGBOOST], ids=lambda kind: kind.name)
def test_training_stops_when_it_is_told_to(kind: BoosterKind) -> None:
    if not kind.installed:
        pytest.skip(f"{kind.name} is not installed")
    seen: list[int] = []

    def watch(number: int, scores: object) -> bool:
        seen.append(number)
        return number < 4

    kind.train(data(), CONFIG, watch)
    assert seen == [0, 1, 2, 3, 4]


def test_one_split_is_the_best_split() -> None:
    rows = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    pack = PackSum([rows[i : i + 1] for i in range(4)], np.array([0.0, 0.0, 4.0, 4.0]))
    config = replace(CONFIG, max_depth=1, eta=1.0, num_boost_round=1)
    trees = train_histogram(pack, config, keep_going)
    np.testing.assert_allclose(trees.predict(rows), [0, 0, 4, 4])
    between = np.array([[1.4, 0.0], [1.6, 0.0], [-9.0, 0.0], [9.0, 0.0]])
    np.testing.assert_allclose(trees.predict(between), [0, 4, 0, 4])


def test_weights_of_samples_count() -> None:
    rows = np.zeros((2, 3))
    pack = PackSum([rows[:1], rows[1:]], np.array([1.0, 4.0]), np.array([3.0, 1.0]))
    config = replace(CONFIG, eta=1.0, num_boost_round=1)
    trees = train_histogram(pack, config, keep_going)
    np.testing.assert_allclose(trees.predict(rows), [1.75, 1.75])


def test_small_gains_and_small_children_are_not_split() -> None:
    rows = np.arange(4.0).reshape(4, 1)
    pack = PackSum([rows[i : i + 1] for i in range(4)], np.array([0.0, 0.0, 0.0, 4.0]))
    config = replace(CONFIG, max_depth=1, eta=1.0, num_boost_round=1)
    for changed, expected in (
        (replace(config, gamma=100.0), [1, 1, 1, 1]),
        (replace(config, min_child_weight=2.0), [0, 0, 2, 2]),
        (config, [0, 0, 0, 4]),
    ):
        trees = train_histogram(pack, changed, keep_going)
        np.testing.assert_allclose(trees.predict(rows), expected)


def test_many_rows_and_many_values() -> None:
    random = np.random.RandomState(3)
    rows = random.rand(2 * ROWS_PER_TREE, 4)
    pack = PackSum(list(rows[:, None, :]), rows[:, 1] * 3)
    first, second = (train_histogram(pack, CONFIG, keep_going) for _ in range(2))
    np.testing.assert_array_equal(first.predict(rows), second.predict(rows))
    assert pack.rmse(first.predict(rows)) < 0.2


def test_columns_that_are_all_the_same() -> None:
    pack = PackSum([np.ones((2, 3)), np.ones((1, 3))], np.array([2.0, 1.0]))
    trees = train_histogram(pack, CONFIG, keep_going)
    np.testing.assert_allclose(trees.predict(np.ones((2, 3))), [1, 1], atol=0.01)


def test_objective() -> None:
    pack = PackSum([np.zeros((2, 1)), np.zeros((1, 1))], np.array([1.0, 0.5]), np.array([1.0, 0.5]))
    gradients, hessians = pack.gradients(np.array([0.25, 0.5, 0.75]))
    np.testing.assert_allclose(gradients, [-0.25, -0.25, 0.125])
    np.testing.assert_allclose(hessians, [1, 1, 0.5])
    assert pack.rmse(np.array([0.25, 0.5, 0.75])) == pytest.approx(0.25)


def test_constant() -> None:
    pack = PackSum([np.zeros((2, 1)), np.zeros((1, 1))], np.array([1.0, 0.5]), np.array([1.0, 0.5]))
    around = [pack.constant() + step for step in (-0.01, 0.0, 0.01)]
    errors = [(pack.weights * (pack.sum(np.full(3, c)) - pack.labels) ** 2).sum() for c in around]
    assert min(errors) == errors[1]
    assert PackSum([np.zeros((1, 1))], np.ones(1), np.zeros(1)).constant() == 0.0


def test_average_peak() -> None:
    throughputs = np.array([0.25, 1.0, 0.5])
    assert average_peak(np.array([3.0, 1.0, 2.0]), throughputs, 3) == pytest.approx(1.75 / 3)
    assert average_peak(np.array([3.0, 1.0, 2.0]), throughputs, 1) == 0.25
    assert average_peak(np.array([1.0]), np.array([0.0]), 4) == 0.0


def test_installed_packages_are_found() -> None:
    assert HISTOGRAM.installed
    assert LIGHTGBM.installed == (find_spec("lightgbm") is not None)
