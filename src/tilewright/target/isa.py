"""Lists the instruction-set extensions of a CPU, asked from LLVM by name.

For the CPU of this machine LLVM lists its features. For any other CPU it does not, so we compile
one small function for each extension and look whether the instruction that only this extension has
was chosen: the answer is what LLVM would really do, never a table of ours that grows old.

llvmlite is imported inside the functions that need it, because a target is often made (and always
imported) by code that never compiles anything.
"""

from __future__ import annotations

import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

from tilewright.errors import TargetError
from tilewright.support.suggestions import did_you_mean
from tilewright.target import amx

# The extensions that decide how fast tensor code runs; others never matter to a measurement.
COMPUTE_FEATURES = (
    "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c",
    "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vpopcntdq",
    "avx512vnni", "avx512bf16", "avx512fp16", "avxvnni",
    "amx-tile", "amx-int8", "amx-bf16", "amx-fp16",
    "neon", "dotprod", "i8mm", "bf16", "fullfp16", "sve", "sve2",
)  # fmt: skip

# Names that need no question to LLVM; all others are looked up in its own list.
_COMMON_X86_CPUS = frozenset({
    "generic", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "core-avx2", "nehalem",
    "sandybridge", "ivybridge", "haswell", "broadwell", "skylake", "skylake-avx512", "skx",
    "cascadelake", "cooperlake", "cannonlake", "icelake-client", "icelake-server", "rocketlake",
    "tigerlake", "alderlake", "sapphirerapids", "emeraldrapids", "graniterapids", "knl", "knm",
    "znver1", "znver2", "znver3", "znver4", "znver5",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """What LLVM says of the CPU that runs this process."""

    cpu: str
    triple: str
    features: frozenset[str]
    known_features: frozenset[str]


@functools.cache
def host() -> Host:
    """Ask LLVM about this machine."""
    llvm = _llvm()
    listed = dict(llvm.get_host_cpu_features())
    present = frozenset(name for name, is_there in listed.items() if is_there)
    return Host(
        cpu=_unmasked(llvm.get_host_cpu_name(), present),
        triple=llvm.get_process_triple(),
        features=amx.usable(present),
        known_features=frozenset(listed),
    )


# Processors by an extension that those with earlier names lack, the newest first.
_SERVERS = (("amx-fp16", "graniterapids"), ("avx512fp16", "sapphirerapids"))
_BEFORE_THEM = frozenset({
    "haswell", "broadwell", "skylake", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake",
    "icelake-client", "icelake-server", "rocketlake", "tigerlake",
})  # fmt: skip


def _unmasked(name: str, features: frozenset[str]) -> str:
    """The name of a processor; virtual machines may give the number of an older model.

    LLVM goes by that number. What the processor is like shows in its extensions.
    """
    if name in _BEFORE_THEM:
        return next((server for feature, server in _SERVERS if feature in features), name)
    return name


@functools.cache
def features_of(cpu: str | None, triple: str | None, mattr: tuple[str, ...]) -> frozenset[str]:
    """Features of a CPU by name (None: this machine's), changed by `+name` and `-name` items."""
    here = host()
    cpu = cpu or (here.cpu if triple in (None, here.triple) else "generic")
    triple = triple or here.triple
    check_cpu(cpu, triple)
    check_mattr(mattr, triple)
    is_host = cpu == here.cpu and triple == here.triple
    if is_host and not mattr:
        return here.features
    added = {item[1:] for item in mattr if item[0] == "+"}
    removed = {item[1:] for item in mattr if item[0] == "-"}
    features = (_base_features(cpu, triple, mattr, is_host) | added) - removed
    return amx.consistent(features, removed)


def _base_features(cpu: str, triple: str, mattr: tuple[str, ...], is_host: bool) -> set[str]:
    if is_aarch64(triple):
        return {"neon"}
    if not is_x86(triple):
        return set()
    if not is_host:
        tiles = amx.EXTENSIONS_OF_CPU.get(cpu, frozenset())
        return {"sse2"} | tiles | _probe(cpu, triple, mattr)
    here = host()
    listed = tuple(
        f"{'+' if name in here.features else '-'}{name}" for name in sorted(here.known_features)
    )
    # Extensions depend on one another, so only a probe tells what `mattr` really leaves.
    return (set(here.features) - _PROBES.keys()) | _probe(cpu, triple, (*listed, *mattr))


def vector_bits(features: frozenset[str]) -> int:
    """Width of the widest vector register, in bits."""
    if "avx512f" in features:
        return 512
    return 256 if "avx" in features else 128


def is_x86(triple: str) -> bool:
    return triple.split("-")[0] in ("x86_64", "amd64", "i386", "i686")


def is_aarch64(triple: str) -> bool:
    return triple.split("-")[0] in ("aarch64", "arm64")


def check_cpu(cpu: str, triple: str) -> None:
    """A CPU that LLVM does not know is an error: LLVM itself would only warn and ignore it."""
    if cpu == host().cpu or (is_x86(triple) and cpu in _COMMON_X86_CPUS):
        return
    known = _llvm_names(triple).cpus
    if cpu not in known:
        hint = did_you_mean(cpu, known, list_all=False)
        raise TargetError(f"LLVM knows no CPU {cpu!r} for {triple}{hint}")


def check_mattr(mattr: Iterable[str], triple: str) -> None:
    """An item of `mattr` must be `+name` or `-name` of a feature that LLVM knows."""
    for item in mattr:
        if not re.fullmatch(r"[+-].+", item):
            raise TargetError(f"mattr item {item!r} must start with '+' or '-', as '+avx2'")
        name = item[1:]
        if triple == host().triple and name in host().known_features:
            continue
        known = _llvm_names(triple).features
        if name not in known:
            hint = did_you_mean(name, known, list_all=False)
            raise TargetError(f"LLVM knows no feature {name!r} for {triple}{hint}")


def check_feature(name: str, owner: str) -> None:
    """A feature that LLVM does not know for our CPUs is an error that names its `owner`."""
    if name in COMPUTE_FEATURES or name in host().known_features:
        return
    known = _llvm_names("x86_64-linux-gnu").features | _llvm_names("aarch64-linux-gnu").features
    if name not in known:
        hint = did_you_mean(name, known, list_all=False)
        raise TargetError(f"{owner} needs the CPU feature {name!r}, which LLVM does not know{hint}")


@dataclass(frozen=True, slots=True)
class _Names:
    cpus: frozenset[str]
    features: frozenset[str]


# LLVM prints its lists to the error stream of the process, so a process of its own collects them.
_LIST_NAMES = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu="help")
"""


@functools.cache
def _llvm_names(triple: str) -> _Names:
    done = subprocess.run(
        [sys.executable, "-c", _LIST_NAMES, triple], capture_output=True, text=True, check=False
    )
    cpus, _, features = done.stderr.partition("Available features")
    if done.returncode != 0 or not features:
        raise TargetError(f"LLVM cannot generate code for the triple {triple!r}")
    entry = re.compile(r"^  (\S+) +- ", re.MULTILINE)
    return _Names(frozenset(entry.findall(cpus)), frozenset(entry.findall(features)))


@dataclass(frozen=True, slots=True)
class _Probe:
    """A function `@probe` whose code matches `pattern` only if the extension is there."""

    pattern: str
    code: str
    features: str = ""


def _binary(pattern: str, vector: str, op: str) -> _Probe:
    code = f"""define {vector} @probe({vector} %a, {vector} %b) #0 {{
  %r = {op} {vector} %a, %b
  ret {vector} %r
}}"""
    return _Probe(pattern, code)


def _dot(pattern: str, lanes: int, features: str = "") -> _Probe:
    wide, narrow = f"<{2 * lanes} x i32>", f"<{2 * lanes} x i16>"
    acc = f"<{lanes} x i32>"
    even, odd = (
        ", ".join(f"i32 {2 * lane + offset}" for lane in range(lanes)) for offset in (0, 1)
    )
    code = f"""define {acc} @probe({acc} %acc, {narrow} %a, {narrow} %b) #0 {{
  %x = sext {narrow} %a to {wide}
  %y = sext {narrow} %b to {wide}
  %z = mul nsw {wide} %x, %y
  %e = shufflevector {wide} %z, {wide} poison, {acc} <{even}>
  %o = shufflevector {wide} %z, {wide} poison, {acc} <{odd}>
  %s = add {acc} %e, %o
  %r = add {acc} %s, %acc
  ret {acc} %r
}}"""
    return _Probe(pattern, code, features)


def _call(pattern: str, result: str, callee: str, types: str, operands: str) -> _Probe:
    params = ", ".join(item for item in operands.split(", ") if "%" in item)
    code = f"""declare {result} @{callee}({types})
define {result} @probe({params}) #0 {{
  %r = call {result} @{callee}({operands})
  ret {result} %r
}}"""
    return _Probe(pattern, code)


def _convert(pattern: str, op: str, source: str, result: str) -> _Probe:
    code = f"""define {result} @probe({source} %a) #0 {{
  %r = {op} {source} %a to {result}
  ret {result} %r
}}"""
    return _Probe(pattern, code)


_F32X8, _F32X16 = "<8 x float>", "<16 x float>"

_PROBES: dict[str, _Probe] = {
    "sse4.1": _call(
        "pminsd",
        "<4 x i32>",
        "llvm.smin.v4i32",
        "<4 x i32>, <4 x i32>",
        "<4 x i32> %a, <4 x i32> %b",
    ),
    "sse4.2": _Probe(
        "pcmpgtq",
        """define <2 x i64> @probe(<2 x i64> %a, <2 x i64> %b) #0 {
  %c = icmp sgt <2 x i64> %a, %b
  %r = sext <2 x i1> %c to <2 x i64>
  ret <2 x i64> %r
}""",
    ),
    "avx": _binary(r"vaddps.*%ymm", _F32X8, "fadd"),
    "avx2": _binary(r"vpaddd.*%ymm", "<8 x i32>", "add"),
    "fma": _call(
        "vfmadd", "float", "llvm.fma.f32", "float, float, float", "float %a, float %b, float %c"
    ),
    "f16c": _convert("vcvtph2ps|vcvtsh2ss", "fpext", "half", "float"),
    "avx512f": _binary(r"vaddps.*%zmm", _F32X16, "fadd"),
    "avx512bw": _binary(r"vpaddw.*%zmm", "<32 x i16>", "add"),
    "avx512dq": _binary(r"vpmullq.*%zmm", "<8 x i64>", "mul"),
    "avx512vl": _call(
        r"vpabsq.*%ymm", "<4 x i64>", "llvm.abs.v4i64", "<4 x i64>, i1", "<4 x i64> %a, i1 false"
    ),
    "avx512vpopcntdq": _call(
        "vpopcntd", "<16 x i32>", "llvm.ctpop.v16i32", "<16 x i32>", "<16 x i32> %a"
    ),
    "avx512vnni": _dot(r"vpdpwssd.*%zmm", 16),
    "avx512bf16": _convert(r"vcvtneps2bf16.*%zmm", "fptrunc", _F32X16, "<16 x bfloat>"),
    "avx512fp16": _binary(r"vaddph.*%zmm", "<32 x half>", "fadd"),
    # With AVX-512 VNNI around, LLVM would choose that form for the narrow registers too.
    "avxvnni": _dot(r"vpdpwssd.*%ymm", 8, "-avx512f"),
}

# Without this LLVM may split wide vectors although the registers are there.
_ATTRIBUTES = '\nattributes #0 = { "min-legal-vector-width"="512" }\n'


def _probe(cpu: str, triple: str, features: tuple[str, ...]) -> set[str]:
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    found = set()
    for name, probe in _PROBES.items():
        flags = ",".join(item for item in (*features, probe.features) if item)
        machine = target.create_target_machine(cpu=cpu, features=flags, opt=2)
        assembly = machine.emit_assembly(llvm.parse_assembly(probe.code + _ATTRIBUTES))
        if re.search(probe.pattern, assembly):
            found.add(name)
    return found


def _llvm() -> ModuleType:
    return importlib.import_module("llvmlite.binding")
