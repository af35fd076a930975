"""Candidates as numbers."""

from tilewright.features.base import (
    FeatureExtractor as FeatureExtractor,
    Matrix as Matrix,
    feature_extractors as feature_extractors,
)
from tilewright.features.per_store import PerStoreFeature as PerStoreFeature
from tilewright.features.random_extractor import RandomFeatureExtractor as RandomFeatureExtractor
