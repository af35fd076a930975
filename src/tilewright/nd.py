"""Arrays under the name users of TVM know: `nd.array`, `nd.empty`, `nd.from_dlpack`."""

from tilewright.runtime.ndarray import (
    NDArray as NDArray,
    array as array,
    empty as empty,
    from_dlpack as from_dlpack,
    zeros as zeros,
)
