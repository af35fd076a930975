"""Checks that every feature extractor must pass.

from tilewright.testing.conformance import feature_extractor

@pytest.mark.parametrize("check", feature_extractor.CHECKS)
def test_conformance(check):
    check(MyExtractor)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.features.base import FeatureExtractor
from tilewright.testing.conformance.candidates import matmul_candidates, matmul_context

MakeExtractor = Callable[[], FeatureExtractor]


def check_nothing_to_extract(make: MakeExtractor) -> None:
    """No candidate, no matrix."""
    assert make().extract_from(matmul_context(), []) == []


def check_one_matrix_each(make: MakeExtractor) -> None:
    """A finite matrix of doubles for each candidate, all with the same columns."""
    candidates = matmul_candidates(4)
    matrices = make().extract_from(matmul_context(), candidates)
    assert len(matrices) == len(candidates)
    for matrix in matrices:
        assert matrix.ndim == 2
        assert matrix.dtype == np.float64
        assert matrix.shape[1] == matrices[0].shape[1]
        assert np.isfinite(matrix).all()


def check_equal_members_agree(make: MakeExtractor) -> None:
    """Two extractors with the same settings, and a clone, see the same."""
    context, candidates = matmul_context(), matmul_candidates(3)
    first, second = make(), make()
    copied = first.clone()
    expected = first.extract_from(context, candidates)
    for other in (second, copied):
        for matrix, again in zip(expected, other.extract_from(context, candidates), strict=True):
            np.testing.assert_array_equal(matrix, again)


def check_candidates_are_left_alone(make: MakeExtractor) -> None:
    """Looking at a candidate does not change it."""
    candidates = matmul_candidates(2)
    before = [(candidate.sch.mod, str(candidate.sch.trace)) for candidate in candidates]
    make().extract_from(matmul_context(), candidates)
    after = [(candidate.sch.mod, str(candidate.sch.trace)) for candidate in candidates]
    for (mod, trace), (mod_after, trace_after) in zip(before, after, strict=True):
        assert mod is mod_after
        assert trace == trace_after


CHECKS: tuple[Callable[[MakeExtractor], None], ...] = (
    check_nothing_to_extract,
    check_one_matrix_each,
    check_equal_members_agree,
    check_candidates_are_left_alone,
)
