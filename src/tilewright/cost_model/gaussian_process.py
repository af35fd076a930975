"""A Gaussian process over candidates: what their times may be, given those that were measured.

Where candidates look alike, the prior errs alike. How far that reaches, how large its errors are
and how far it can be trusted at all is chosen by the likelihood of what was measured. All times are
logarithms with base 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Kinds = npt.NDArray[np.int64]

# Standard deviations: of a measured time, and of errors of the prior that all candidates share, or
# all of one kind.
_NOISE, _SHARED, _OF_KIND = 0.05, 0.5, 0.35
_FEWEST = 4  # measured candidates that settings are chosen by
_DRAWS = 32  # at once
_JITTER = 1e-6  # keeps covariances of candidates that look the same invertible


class Setting(NamedTuple):
    """What similarity means."""

    length: float  # distance over which errors of the prior change
    spread: float  # standard deviation of these errors
    trust: float  # by which differences between priors are multiplied


_UNKNOWN = Setting(2.5, 0.3, 1.0)
_SETTINGS = tuple(
    itertools.starmap(Setting, itertools.product((1.0, 2.5), (0.2, 0.45), (0.0, 0.5, 1.0)))
)
_TRUST_SPREAD = 0.7  # around full trust, before anything is known
_KIND_DISTANCE = 1.0  # between candidates of different kinds, beside that of their features


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of the times of some candidates."""

    mean: Floats
    covariance: Floats

    def draws(self, random: np.random.Generator) -> Iterator[Floats]:
        """Times that all candidates may have, again and again ("Thompson sampling")."""
        count = len(self.mean)
        scale = max(1e-3, float(self.covariance.max(initial=0.0)))
        root = np.linalg.cholesky(self.covariance + _JITTER * scale * np.eye(count))
        while True:
            yield from self.mean + random.standard_normal((_DRAWS, count)) @ root.T


def belief(features: Floats, kinds: Kinds, prior: Floats, measured: Floats) -> Belief:
    """The belief about all candidates after the measured ones, which come first in each array.

    `kinds` are numbers of sketches, say: candidates of different kinds may err differently.
    """
    alike = kinds[:, None] == kinds[None, :]
    distances = np.sqrt(_squares(_scaled(features)) + np.where(alike, 0.0, _KIND_DISTANCE**2))
    settings = _SETTINGS if len(measured) >= _FEWEST else (_UNKNOWN,)
    common = _SHARED**2 + np.where(alike, _OF_KIND**2, 0.0)
    fitted: dict[tuple[float, float], _Covariances] = {}  # which trust does not matter for
    for each in settings:
        if each[:2] not in fitted:
            fitted[each[:2]] = _Covariances(each, distances, common, len(measured))
    fits = [_Fit(each, fitted[each[:2]], prior, measured) for each in settings]
    return max(fits, key=lambda fit: fit.likelihood).belief()


def _scaled(features: Floats) -> Floats:
    """Columns that say something, of one scale."""
    spread = features.std(axis=0)
    told = features[:, spread > 1e-9]
    scale = 2.0 / np.sqrt(max(1, told.shape[1]))
    scaled: Floats = (told - told.mean(axis=0)) / spread[spread > 1e-9] * scale
    return scaled


def _squares(points: Floats) -> Floats:
    """Squares of the distances between all points."""
    lengths = (points**2).sum(axis=1)
    between = lengths[:, None] + lengths[None, :] - 2.0 * points @ points.T
    squares: Floats = np.maximum(between, 0.0)
    return squares


class _Covariances:
    """What a length and a spread say; of candidates that were not measured when it is asked for."""

    def __init__(self, setting: Setting, distances: Floats, common: Floats, measured: int) -> None:
        self._setting, self._distances, self._common = setting, distances, common
        self.known, self.new = slice(0, measured), slice(measured, None)
        noise = _NOISE**2 * np.eye(measured)
        root = np.linalg.cholesky(self.between(self.known, self.known) + noise)
        self.inverse = np.linalg.inv(root)
        self.logs = float(np.log(np.diag(root)).sum())

    def between(self, some: slice, others: slice) -> Floats:
        part = some, others
        covariances: Floats = _covariance(self._setting, self._distances[part]) + self._common[part]
        return covariances


class _Fit:
    """A process with one setting, and how well it explains what was measured."""

    def __init__(
        self, setting: Setting, covariances: _Covariances, prior: Floats, times: Floats
    ) -> None:
        self._covariances, self._mean = covariances, setting.trust * prior
        errors = times - self._mean[covariances.known]
        self._level = float(errors.mean()) if len(times) else 0.0
        self._errors = covariances.inverse @ (errors - self._level)
        doubt = (setting.trust - 1.0) / _TRUST_SPREAD
        squares = float(self._errors @ self._errors)
        self.likelihood = -0.5 * squares - covariances.logs - 0.5 * doubt**2

    def belief(self) -> Belief:
        own = self._covariances
        across = own.inverse @ own.between(own.known, own.new)
        mean = self._mean[own.new] + self._level + across.T @ self._errors
        return Belief(mean, own.between(own.new, own.new) - across.T @ across)


def _covariance(setting: Setting, distances: Floats) -> Floats:
    """Matérn's, for functions that can be differentiated twice."""
    steps = np.sqrt(5.0) * distances / setting.length
    alike: Floats = setting.spread**2 * (1.0 + steps + steps**2 / 3.0) * np.exp(-steps)
    return alike
