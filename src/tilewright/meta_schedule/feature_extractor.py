"""Feature extractors."""

from tilewright.features import (
    PerStoreFeature as PerStoreFeature,
    RandomFeatureExtractor as RandomFeatureExtractor,
)
from tilewright.features.base import (
    FeatureExtractor as FeatureExtractor,
    feature_extractors as feature_extractors,
)

PyFeatureExtractor = FeatureExtractor
create = FeatureExtractor.create
