"""Sharing what was measured: kernels in one file, comparisons, tables for other programs."""

from tilewright.sharing.bundle import (
    Bundle as Bundle,
    bundle_of as bundle_of,
    read_bundle as read_bundle,
    write_bundle as write_bundle,
)
from tilewright.sharing.comparing import (
    Comparison as Comparison,
    Side as Side,
    compare as compare,
    side_from as side_from,
)
from tilewright.sharing.opening import (
    OpenedBundle as OpenedBundle,
    measure_bundle as measure_bundle,
    open_bundle as open_bundle,
)
