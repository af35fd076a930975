"""The builder and the runners of this package, imported so that they are known by name."""

from __future__ import annotations

from tilewright.fleet.ray_builder import RayBuilder as RayBuilder
from tilewright.fleet.ray_runner import RayRunner as RayRunner
from tilewright.fleet.rpc_runner import RPCConfig as RPCConfig, RPCRunner as RPCRunner
