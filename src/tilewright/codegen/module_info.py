"""A compiled module's functions, messages and machine; an exported library carries them along."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lowering.host_abi import ArgumentSpec
from tilewright.target.isa import host
from tilewright.version import __version__

# Extensions that no compiler uses on its own; not having them never stops a kernel.
_SYSTEM_FEATURE_NAMES = (
    "64bit adx cldemote clflushopt clwb clzero cmov cx16 cx8 enqcmd fsgsbase fxsr hreset invpcid "
    "lwp mmx movdir64b movdiri mwaitx pconfig pku prfchw ptwrite rdpid rdpru rdrnd rdseed rtm sahf "
    "serialize sgx sha shstk tbm tsxldtrk uintr usermsr waitpkg wbnoinvd xop xsave xsavec xsaveopt "
    "xsaves"
)
_SYSTEM_FEATURES = frozenset(_SYSTEM_FEATURE_NAMES.split())


@dataclass(frozen=True)
class FunctionInfo:
    """How one function is called."""

    name: str
    signature: tuple[ArgumentSpec, ...]
    no_alias: bool = False


@dataclass(frozen=True)
class ModuleInfo:
    """All functions of a module, the messages of its assertions, and what it was compiled for."""

    functions: tuple[FunctionInfo, ...]
    messages: tuple[str, ...]
    target: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    version: str = __version__
    device: str = "cpu"


def needed_features(info: ModuleInfo) -> list[str]:
    """The extensions of processors that the code may use."""
    return sorted(set(info.features) - _SYSTEM_FEATURES)


def why_unrunnable(info: ModuleInfo) -> str:
    """Why this machine cannot run such code; empty if it can, or if the code names no machine."""
    if not info.triple:
        return ""
    here = host()
    is_other = info.triple.partition("-")[0] != here.triple.partition("-")[0]
    if is_other or ("linux" in info.triple and "linux" not in here.triple):
        return f"it was compiled for {info.triple}, this machine is {here.triple}"
    missing = [name for name in needed_features(info) if name not in here.features]
    if missing:
        return (
            f"it was compiled for {info.cpu} with {', '.join(missing)}, which this machine's "
            f"{here.cpu} lacks"
        )
    return ""
