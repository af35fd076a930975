"""Arrays under the name users of TVM know: `nd.array`, `nd.empty`, `nd.from_dlpack`."""

from tilewright.runtime.ndarray import *  # noqa: F403 - its `__all__`
