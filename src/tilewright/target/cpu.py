"""Everything a rule or a code generator may ask about the CPU of a target."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.config import thread_limit
from tilewright.target import isa, topology
from tilewright.target.kinds import AttrValue
from tilewright.target.topology import Caches, Topology


@dataclass(frozen=True, slots=True)
class CpuDescription:
    """A CPU as the compiler sees it.

    Of this machine everything is detected. Of another CPU only its instruction set is known: it
    counts as one core with the default `Caches` unless the target's attributes say otherwise.
    """

    name: str
    triple: str
    is_host: bool
    features: frozenset[str]
    vector_bits: int
    physical_cores: int
    logical_cores: int
    caches: Caches

    @property
    def compute_features(self) -> tuple[str, ...]:
        """The features that matter to tensor code, in a fixed order."""
        return tuple(name for name in isa.COMPUTE_FEATURES if name in self.features)


@functools.cache
def host_topology() -> Topology:
    """This machine, with no more cores than threads may run."""
    machine = topology.detect()
    threads = thread_limit() or machine.logical_cores
    return replace(
        machine,
        physical_cores=min(machine.physical_cores, threads),
        logical_cores=min(machine.logical_cores, threads),
    )


def describe(attrs: Mapping[str, AttrValue]) -> CpuDescription:
    """The CPU that the attributes of an `llvm` or `c` target stand for."""
    here = isa.host()
    triple = _text(attrs, "mtriple") or here.triple
    name = _text(attrs, "mcpu") or (here.cpu if triple == here.triple else "generic")
    is_host = name == here.cpu and triple == here.triple
    machine = host_topology() if is_host else Topology(1, 1, Caches())
    mattr = attrs.get("mattr", ())
    features = isa.features_of(name, triple, mattr if isinstance(mattr, tuple) else ())
    cores = _number(attrs, "num-cores")
    return CpuDescription(
        name=name,
        triple=triple,
        is_host=is_host,
        features=features,
        vector_bits=_number(attrs, "vector-width") or isa.vector_bits(features),
        physical_cores=cores or machine.physical_cores,
        logical_cores=cores or machine.logical_cores,
        caches=_caches(attrs, machine.caches),
    )


def _caches(attrs: Mapping[str, AttrValue], detected: Caches) -> Caches:
    return Caches(
        l1d_bytes=_number(attrs, "l1d_cache_size_bytes") or detected.l1d_bytes,
        l2_bytes=_number(attrs, "l2_cache_size_bytes") or detected.l2_bytes,
        l3_bytes=_number(attrs, "l3_cache_size_bytes") or detected.l3_bytes,
        line_bytes=detected.line_bytes,
    )


def _text(attrs: Mapping[str, AttrValue], name: str) -> str | None:
    value = attrs.get(name)
    return value if isinstance(value, str) and value else None


def _number(attrs: Mapping[str, AttrValue], name: str) -> int | None:
    value = attrs.get(name)
    return value if isinstance(value, int) else None
