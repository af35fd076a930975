"""Our extractors meet the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.features import PerStoreFeature, RandomFeatureExtractor, feature_extractors
from tilewright.testing.conformance import feature_extractor

MEMBERS: dict[str, feature_extractor.MakeExtractor] = {
    "per-store-feature": PerStoreFeature,
    "with workload": lambda: PerStoreFeature(extract_workload=True),
    "random": lambda: RandomFeatureExtractor(seed=3),
}


@pytest.mark.parametrize("check", feature_extractor.CHECKS)
@pytest.mark.parametrize("name", MEMBERS)
def test_conformance(name: str, check: Callable[[feature_extractor.MakeExtractor], None]) -> None:
    check(MEMBERS[name])


def test_members_are_known_by_name() -> None:
    assert isinstance(feature_extractors.create("per-store-feature"), PerStoreFeature)
    assert isinstance(feature_extractors.create("random", seed=1), RandomFeatureExtractor)


def test_random_features_have_the_shape_that_was_asked_for() -> None:
    from_seed = RandomFeatureExtractor(feature_size=7, max_block_num=2, seed=5)
    matrices = from_seed.extract_from(None, [None] * 20)  # type: ignore[arg-type, list-item]
    assert {matrix.shape for matrix in matrices} == {(1, 7), (2, 7)}
