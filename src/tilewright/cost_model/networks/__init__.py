"""Networks that score candidates: in NumPy, in PyTorch."""

from importlib.util import find_spec

from tilewright.cost_model.networks.base import (
    Network as Network,
    Parameters as Parameters,
    SegmentSumMLPConfig as SegmentSumMLPConfig,
    TrainerConfig as TrainerConfig,
    fresh_parameters as fresh_parameters,
)
from tilewright.cost_model.networks.numpy_network import NumPyNetwork
from tilewright.cost_model.networks.torch_network import TorchNetwork
from tilewright.errors import TuneError

_NETWORKS: dict[str, type[Network]] = {"numpy": NumPyNetwork, "torch": TorchNetwork}


def network_named(name: str) -> type[Network]:
    """The implementation of that name; "auto" is PyTorch's where it is installed."""
    has_torch = find_spec("torch") is not None
    if name == "auto":
        name = "torch" if has_torch else "numpy"
    if name not in _NETWORKS:
        raise TuneError(f"no network is called {name!r}; there are auto, {', '.join(_NETWORKS)}")
    if name == "torch" and not has_torch:
        raise TuneError("PyTorch is not installed; `pip install torch`, or use backend='numpy'")
    return _NETWORKS[name]
