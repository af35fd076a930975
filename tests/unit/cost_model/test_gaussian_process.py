"""What is believed of candidates that were not measured."""

from __future__ import annotations

import itertools

import numpy as np

from tilewright.cost_model.gaussian_process import belief

RANDOM = np.random.default_rng(1)
FEATURES = RANDOM.random((40, 5))
KINDS = np.repeat([0, 1], 20)
PRIOR = RANDOM.random(40)


def first(order: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, kinds and priors, with some candidates first."""
    rows = [*order, *(n for n in range(40) if n not in order)]
    return FEATURES[rows], KINDS[rows], PRIOR[rows]


def test_before_anything_is_measured_the_prior_is_believed() -> None:
    found = belief(FEATURES, KINDS, PRIOR, np.array([]))
    assert np.allclose(found.mean, PRIOR)


def test_candidates_like_measured_ones_are_known_better() -> None:
    order = [3, 7, 25]
    features, kinds, prior = first(order)
    features[3] = features[0]  # looks like the first measured one
    kinds[3] = kinds[0]
    found = belief(features, kinds, prior, np.array([1.0, 2.0, 3.0]))
    spread = np.sqrt(np.diag(found.covariance))
    assert spread[0] < 0.2 * np.median(spread)


def test_a_prior_that_is_wrong_is_trusted_no_more() -> None:
    order = list(range(0, 40, 2))
    features, kinds, prior = first(order)
    truth = 3.0 * features[:, 0]  # of which the prior knows nothing
    found = belief(features, kinds, prior, truth[:20])
    assert np.corrcoef(found.mean, truth[20:])[0, 1] > 0.9


def test_a_prior_that_is_wrong_about_one_kind_is_corrected_for_all_of_it() -> None:
    order = [0, 1, 2, 3, 20, 21, 22, 23]
    features, kinds, prior = first(order)
    truth = prior + np.where(kinds == 0, 1.5, 0.0)
    found = belief(features, kinds, prior, truth[:8])
    assert np.abs(found.mean - truth[8:]).max() < 0.6
    assert found.mean[kinds[8:] == 0].min() > found.mean[kinds[8:] == 1].max() - 0.5


def test_draws_are_as_far_apart_as_is_believed() -> None:
    features, kinds, prior = first([5, 30])
    found = belief(features, kinds, prior, np.array([1.0, 1.5]))
    drawn = np.array(list(itertools.islice(found.draws(np.random.default_rng(2)), 4000)))
    assert np.allclose(drawn.mean(axis=0), found.mean, atol=0.05)
    assert np.allclose(np.cov(drawn.T), found.covariance, atol=0.05)


def test_draws_depend_on_their_generator_alone() -> None:
    found = belief(FEATURES, KINDS, PRIOR, np.array([1.0, 2.0]))
    once, again = (
        list(itertools.islice(found.draws(np.random.default_rng(3)), 5)) for _ in range(2)
    )
    assert np.array_equal(once, again)


def test_candidates_that_all_look_the_same() -> None:
    found = belief(np.ones((6, 3)), np.zeros(6, np.int64), np.zeros(6), np.array([1.0, 1.0]))
    assert np.allclose(found.mean, 1.0, atol=0.01)
    assert np.isfinite(next(found.draws(np.random.default_rng(1)))).all()
