"""RCGA: CGA with key variables drawn at random, to see what their importance is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.search.constrained.base import constrained_strategies
from tilewright.search.constrained.cga import ConstrainedGenetic


@constrained_strategies.register("rcga")
class RandomKeyGenetic(ConstrainedGenetic):
    """As CGA, but any variable may be a key."""

    def _key_variables(self) -> NDArray[np.int64]:
        return self.rng.choice(len(self.space.names), self._key_count(), replace=False)
