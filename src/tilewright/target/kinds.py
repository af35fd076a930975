"""The kinds of target, as a table: which attributes each takes, and their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tilewright.errors import TargetError
from tilewright.support.plugins import Family
from tilewright.support.suggestions import did_you_mean
from tilewright.target.gpu import detected_attributes

AttrValue = int | bool | str | tuple[str, ...]
AttrType = Literal["int", "bool", "str", "list"]


@dataclass(frozen=True)
class TargetKind:
    """One kind of target; compares by name."""

    name: str
    default_keys: tuple[str, ...] = field(compare=False)
    attrs: Mapping[str, AttrType] = field(compare=False, repr=False)
    defaults: Mapping[str, AttrValue] = field(compare=False, repr=False)
    # Attributes of the machine at hand, for a target that does not say its architecture.
    detected: Callable[[], Mapping[str, AttrValue]] = field(default=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name

    def attr_type(self, name: str) -> AttrType:
        """The type of an attribute; an unknown attribute is an error."""
        found = self.attrs.get(name)
        if found is None:
            hint = did_you_mean(name, self.attrs)
            raise TargetError(f"target kind {self.name!r} has no attribute {name!r}{hint}")
        return found


# Attributes that every kind takes. `libs`, `model` and `device` describe a target to other tools.
_COMMON: dict[str, AttrType] = {"libs": "list", "model": "str", "device": "str"}

_CPU: dict[str, AttrType] = {
    "mcpu": "str",
    "mattr": "list",
    "mtriple": "str",
    "num-cores": "int",
    "vector-width": "int",
    "l1d_cache_size_bytes": "int",
    "l2_cache_size_bytes": "int",
    "l3_cache_size_bytes": "int",
}

_LLVM: dict[str, AttrType] = {"mabi": "str", "mfloat-abi": "str"}

_CUDA: dict[str, AttrType] = {
    "arch": "str",
    "max_num_threads": "int",
    "max_threads_per_block": "int",
    "max_shared_memory_per_block": "int",
    "registers_per_block": "int",
    "thread_warp_size": "int",
    "multi_processor_count": "int",
    "l2_cache_size_bytes": "int",
}

# The accelerator VTA: shapes of its matrix instruction, bytes of its scratchpads, its memory port.
_VTA: dict[str, AttrValue] = {
    "batch": 1,
    "block-in": 16,
    "block-out": 16,
    "uop-buffer-bytes": 32 << 10,
    "inp-buffer-bytes": 32 << 10,
    "wgt-buffer-bytes": 256 << 10,
    "acc-buffer-bytes": 128 << 10,
    "bus-bytes": 8,
    "row-latency-cycles": 20,
    "clock-mhz": 100,
}


def _kind(
    name: str,
    keys: tuple[str, ...],
    attrs: dict[str, AttrType],
    defaults: dict[str, AttrValue] | None = None,
    detected: Callable[[], Mapping[str, AttrValue]] = dict,
) -> TargetKind:
    known, given = MappingProxyType({**_COMMON, **attrs}), MappingProxyType(defaults or {})
    return TargetKind(name, keys, known, given, detected)


_KINDS: Mapping[str, TargetKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            _kind("llvm", ("cpu",), {**_CPU, **_LLVM}),
            _kind("c", ("cpu",), _CPU),
            _kind(
                "cuda",
                ("cuda", "gpu"),
                _CUDA,
                # Where there is no GPU: what all of them have had since sm_80, which compilers
                # will know for long.
                {
                    "arch": "sm_80",
                    "max_num_threads": 1024,
                    "max_shared_memory_per_block": 49152,
                    "max_threads_per_block": 1024,
                    "registers_per_block": 65536,
                    "thread_warp_size": 32,
                },
                lambda: detected_attributes(),
            ),
            _kind("vta", ("vta",), dict.fromkeys(_VTA, "int"), _VTA),
        )
    }
)


# Kinds of others: a function that makes one, registered or offered by an installed package.
OTHER_KINDS: Family[TargetKind] = Family("target kind", "tilewright.target_kind")


def cpu_kind(name: str) -> TargetKind:
    """A kind with the attributes of a CPU, for a backend of one's own."""
    return _kind(name, ("cpu",), _CPU)


def get_kind(name: str) -> TargetKind:
    """The kind of that name; an unknown name is an error."""
    kind = _KINDS.get(name)
    if kind is None and name in OTHER_KINDS:
        return OTHER_KINDS.create(name)
    if kind is None:
        raise TargetError(f"unknown target kind {name!r}{did_you_mean(name, _KINDS)}")
    return kind


def list_kinds() -> list[str]:
    """The names of all kinds."""
    return [*_KINDS, *OTHER_KINDS]
