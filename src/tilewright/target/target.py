"""`Target`: what a program is compiled for."""

from __future__ import annotations

import contextvars
import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tilewright.errors import TargetError
from tilewright.target import isa, parse
from tilewright.target.cpu import CpuDescription, describe
from tilewright.target.gpu import GpuDescription, describe_gpu
from tilewright.target.kinds import AttrValue, TargetKind, list_kinds

NATIVE = "native"  # as compilers call the CPU that they run on

_scopes: contextvars.ContextVar[tuple[Target, ...]] = contextvars.ContextVar(
    "tilewright_target_scopes", default=()
)


@dataclass(frozen=True, init=False, repr=False)
class Target:
    """A machine to compile for, with its attributes; immutable and hashable.

    `Target("llvm")` is this machine with everything detected, and so is `"llvm -mcpu=native"`.
    `Target("cuda")` is the first GPU of this machine; without one, any GPU since sm_80.
    Strings (`"llvm -mcpu=haswell"`), dictionaries and tags (`"nvidia/nvidia-a100"`) describe
    others. The tag takes no part in comparisons: it is only a name for the rest. `with target:`
    makes a target the current one.
    """

    kind: TargetKind
    keys: tuple[str, ...]
    tag: str = field(compare=False)
    attr_items: tuple[tuple[str, AttrValue], ...]
    host: Target | None

    def __init__(
        self, target: str | Mapping[str, object] | Target, host: object | None = None
    ) -> None:
        described = _describe(target)
        host = described.host if host is None else host
        values = {
            "kind": described.kind,
            "keys": described.keys,
            "tag": described.tag,
            "attr_items": described.attrs,
            "host": None if host is None else Target._from_host(host),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        # A misspelt CPU or feature is found where it is written, not where it is first used.
        if described.kind.name != "cuda" and self.attrs.keys() & {"mcpu", "mattr", "mtriple"}:
            describe(self.attrs)

    @staticmethod
    def _from_host(host: object) -> Target:
        if not isinstance(host, str | Mapping | Target):
            raise TargetError(f"the host of a target must itself be a target, got {host!r}")
        made = Target(host)
        if made.kind.name not in ("llvm", "c"):
            raise TargetError(f"the host of a target must be a CPU target, got {str(made)!r}")
        return made

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with target:` scope."""
        scopes = _scopes.get()
        if scopes:
            return scopes[-1]
        if allow_none:
            return None
        raise TargetError("no target is set; pass target=... or use `with Target('llvm'):`")

    def __enter__(self) -> Target:
        _scopes.set((*_scopes.get(), self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _scopes.set(_scopes.get()[:-1])

    @property
    def attrs(self) -> Mapping[str, AttrValue]:
        """The attributes that were given, and the defaults of the kind."""
        return MappingProxyType(dict(self.attr_items))

    @property
    def is_cpu(self) -> bool:
        return "cpu" in self.keys

    @functools.cached_property
    def cpu(self) -> CpuDescription:
        """The CPU behind an `llvm` or `c` target; detected when first asked for."""
        if not self.is_cpu:
            raise TargetError(f"target {str(self)!r} is not a CPU; ask its host instead")
        return describe(self.attrs)

    @functools.cached_property
    def gpu(self) -> GpuDescription:
        """The GPU behind a `cuda` target, detected or by its model, tag or architecture."""
        if self.kind.name != "cuda":
            raise TargetError(f"target {str(self)!r} is not a GPU")
        found = describe_gpu(str(self.attrs.get("model", "")), self.tag, self.arch)
        count = self.attrs.get("multi_processor_count")
        return replace(found, multiprocessors=count) if isinstance(count, int) else found

    @property
    def mcpu(self) -> str:
        """Name of the CPU as LLVM spells it, given or detected."""
        return self.cpu.name

    @property
    def mattr(self) -> tuple[str, ...]:
        """Changes to the CPU's features that were asked for, as `+name` and `-name`."""
        return self._texts("mattr")

    @property
    def num_cores(self) -> int:
        """Cores to spread parallel loops over: given, or the physical ones we may use."""
        return self.cpu.physical_cores

    @property
    def features(self) -> frozenset[str]:
        """Names of the CPU's instruction-set extensions, as LLVM spells them."""
        return self.cpu.features

    @property
    def vector_bits(self) -> int:
        """Width of the widest vector register, in bits."""
        return self.cpu.vector_bits

    @property
    def fingerprint(self) -> str:
        """What two targets must share for their measurements to be comparable."""
        if self.is_cpu:
            isa = "+".join(self.cpu.compute_features)
            parts = {"cpu": self.cpu.name, "cores": self.cpu.physical_cores, "isa": isa}
        else:
            parts = dict(self.attr_items)
        return ";".join([self.kind.name, *(f"{name}={value}" for name, value in parts.items())])

    @property
    def arch(self) -> str:
        """The architecture of a GPU, e.g. "sm_80"."""
        return self._given("arch")

    @property
    def max_num_threads(self) -> int:
        """Threads that a block of a GPU may have."""
        return int(self._given("max_threads_per_block"))

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of shared memory that a block of a GPU may use."""
        return int(self._given("max_shared_memory_per_block"))

    @property
    def thread_warp_size(self) -> int:
        """Threads of a GPU that run in step."""
        return int(self._given("thread_warp_size"))

    @property
    def libs(self) -> tuple[str, ...]:
        """Libraries that code may call."""
        return self._texts("libs")

    @property
    def model(self) -> str:
        """The name of the machine, "unknown" unless one was given."""
        return str(self.attrs.get("model", "unknown"))

    def _texts(self, name: str) -> tuple[str, ...]:
        value = self.attrs.get(name, ())
        return value if isinstance(value, tuple) else ()

    def _given(self, name: str) -> str:
        if name not in self.attrs:
            raise TargetError(f"target {str(self)!r} does not say its {name}")
        return str(self.attrs[name])

    @staticmethod
    def list_kinds() -> list[str]:
        """The kinds of targets that there are."""
        return list_kinds()

    def with_host(self, host: str | Mapping[str, object] | Target) -> Target:
        """The same target with that host."""
        return Target(self, host=host)

    def export(self) -> dict[str, object]:
        """A plain dictionary, as tuning records hold it; `Target(target.export()) == target`."""
        made: dict[str, object] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.attr_items
        }
        made |= {"keys": list(self.keys), "kind": self.kind.name, "tag": self.tag}
        if self.host is not None:
            made["host"] = self.host.export()
        return dict(sorted(made.items()))

    def __reduce__(self) -> tuple[type[Target], tuple[dict[str, object]]]:
        # Only the description travels: the process that unpickles it detects its own CPU.
        return Target, (self.export(),)

    def __str__(self) -> str:
        options = [f"-keys={','.join(self.keys)}"]
        options += [f"-{name}={_option_text(value)}" for name, value in self.attr_items]
        return " ".join([self.kind.name, *options])

    def __repr__(self) -> str:
        host = "" if self.host is None else f", host={str(self.host)!r}"
        return f"Target({str(self)!r}{host})"


def _describe(target: str | Mapping[str, object] | Target) -> parse.Description:
    match target:
        case Target():
            return parse.Description(
                target.kind, target.keys, target.tag, target.attr_items, target.host
            )
        case str():
            return _without_native(parse.from_string(target))
        case Mapping():
            return _without_native(parse.from_mapping(target))
    raise TargetError(f"a target is a text, a dictionary or a Target, got {target!r}")


def _without_native(described: parse.Description) -> parse.Description:
    """`-mcpu=native` is this machine, which is what a target without `-mcpu` detects.

    Left in the description it would mean another machine wherever a record of it is read.
    """
    attrs = dict(described.attrs)
    if attrs.get("mcpu") != NATIVE:
        return described
    here, triple = isa.host().triple, attrs.get("mtriple", "")
    if triple not in ("", here):
        raise TargetError(f"-mcpu=native is this machine ({here}), but -mtriple says {triple}")
    del attrs["mcpu"]
    return replace(described, attrs=tuple(attrs.items()))


def _option_text(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return shlex.quote(text) if " " in text else text
