"""`tilewright doctor`: one check a subject, listed in `CHECKS`, for people or as JSON."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

import llvmlite
import llvmlite.binding as llvm
import msgspec
import numpy as np
from rich.console import Console
from rich.text import Text

from tilewright.cli.console import make_console
from tilewright.codegen.host.code_store import code_store
from tilewright.config import settings
from tilewright.driver import build
from tilewright.errors import TilewrightError
from tilewright.runtime.devices import cuda
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.version import __version__

Status = Literal["ok", "missing", "broken"]

# `missing` is an optional part that is not here; `broken` is a part of the CPU path that fails.
ISA_OF_INTEREST = ("avx2", "fma", "avx512f", "avx512vnni", "avx512bf16", "avx512fp16", "amx-tile")


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one subject, with what to do if it is not `ok`."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def _fact(name: str, detail: Callable[[], str]) -> Callable[[], Finding]:
    """A check that only tells what there is."""
    return lambda: Finding(name, "ok", detail())


def _llvm() -> str:
    version = ".".join(str(part) for part in llvm.llvm_version_info)
    return f"LLVM {version} (llvmlite {llvmlite.__version__}), CPU {Target('llvm').cpu.name}"


_ADD = """
@T.prim_func
def add(a: T.Buffer((256,), "int64"), b: T.Buffer((256,), "int64"), c: T.Buffer((256,), "int64")):
    for i in T.parallel(4):
        for j in T.vectorized(64):
            c[i * 64 + j] = a[i * 64 + j] + b[i * 64 + j]
"""


def check_build() -> Finding:
    """Compile a function and run it on all threads: the one test that cannot be fooled."""
    remedy = "reinstall llvmlite; a sandbox that forbids executable memory also causes this"
    try:
        results = _run_add(40, 2)
    except (OSError, RuntimeError, TilewrightError) as error:
        return Finding("compile and run", "broken", f"a kernel did not run: {error}", remedy)
    if results != {42}:
        shown = ", ".join(map(str, sorted(results)[:4]))
        return Finding("compile and run", "broken", f"40 + 2 gave {shown}", remedy)
    return Finding("compile and run", "ok", "a kernel was compiled, run in parallel, and gave 42")


def _run_add(left: int, right: int) -> set[int]:
    a, b, c = (np.full(256, value, "int64") for value in (left, right, 0))
    build(from_source(_ADD), target="llvm")(a, b, c)
    return set(c.tolist())


def _vector_units() -> str:
    cpu = Target("llvm").cpu
    marks = [f"{name} {'yes' if name in cpu.features else 'no'}" for name in ISA_OF_INTEREST]
    if cpu.triple.split("-")[0] in ("aarch64", "arm64"):
        marks = [", ".join(cpu.compute_features) or "neon"]
    return f"{cpu.vector_bits}-bit; {', '.join(marks)}"


def _cores() -> str:
    cpu = Target("llvm").cpu
    return f"{cpu.physical_cores} physical, {cpu.logical_cores} logical usable by this process"


def _caches() -> str:
    caches = Target("llvm").cpu.caches
    sizes = {"L1d": caches.l1d_bytes, "L2": caches.l2_bytes, "L3": caches.l3_bytes}
    shown = ", ".join(f"{name} {size >> 10} KiB" for name, size in sizes.items())
    return f"{shown}, line {caches.line_bytes} B"


def check_settings() -> Finding:
    try:
        chosen = settings()
    except TilewrightError as error:
        return Finding("settings", "broken", str(error), "correct or unset the variable")
    threads = chosen.num_threads or Target("llvm").num_cores
    source = "TILEWRIGHT_NUM_THREADS" if chosen.num_threads else "one per core"
    return Finding("threads", "ok", f"{threads} ({source})")


def check_kept_code() -> Finding:
    """Compiled code that is kept between runs."""
    try:
        store = code_store()
    except TilewrightError as error:
        return Finding("kept code", "broken", str(error), "correct or unset the variable")
    if store is None:
        detail = "none: every process compiles its own"
        return Finding("kept code", "ok", f"{detail}; set TILEWRIGHT_CACHE_DIR to keep code")
    count, size = len(store.entries()), store.size_bytes() / (1 << 20)
    limit = store.limit_bytes >> 20
    detail = f"entries: {count}; {size:.1f} of {limit} MiB in {store.folder}"
    return Finding("kept code", "ok", detail)


def check_c_compiler() -> Finding:
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path is None:
            continue
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        first = done.stdout.splitlines()[:1]
        return Finding("C compiler", "ok", first[0] if first else path)
    remedy = "install gcc or clang to compile what get_source('c') returns"
    return Finding("C compiler", "missing", "none found; building and running needs none", remedy)


def check_gpu() -> Finding:
    """The first GPU, if programs can run on it."""
    reason = cuda(0).why_missing
    if reason:
        return Finding("GPU", "missing", f"programs run on CPUs only: {reason}")
    found = Target("cuda").gpu
    memory = f"{found.memory_bytes / (1 << 30):.0f} GiB"
    return Finding("GPU", "ok", f"{found.model}, {found.arch}, {memory}")


def _package(name: str, module: str, extra: str, purpose: str) -> Callable[[], Finding]:
    """A check for an optional package that `pip install tilewright[extra]` brings."""

    def check() -> Finding:
        if not _importable(module):
            return Finding(name, "missing", purpose, f"pip install 'tilewright[{extra}]'")
        return Finding(name, "ok", importlib.metadata.version(name))

    return check


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


CHECKS: tuple[Callable[[], Finding], ...] = (
    _fact(
        "python", lambda: f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    ),
    _fact("numpy", lambda: importlib.metadata.version("numpy")),
    _fact("llvm", _llvm),
    check_build,
    _fact("vector units", _vector_units),
    _fact("cores", _cores),
    _fact("caches", _caches),
    check_settings,
    check_kept_code,
    check_c_compiler,
    check_gpu,
    _package("torch", "torch", "torch", "a rival in `bench`; makes the cost model 'mlp' quicker"),
    _package("lightgbm", "lightgbm", "tune", "makes the cost model of the search stronger"),
    _package("xgboost", "xgboost", "xgboost", "needed only by the cost model 'xgb'"),
    _package("psycopg", "psycopg", "postgres", "needed only by databases on PostgreSQL servers"),
    _package("ortools", "ortools", "solver", "needed only by the solver 'cp-sat'"),
)


# --- the command ---------------------------------------------------------------------------------

_STYLES = {"ok": "green", "missing": "yellow", "broken": "bold red"}


def run(*, as_json: bool) -> int:
    """Print the findings; the exit status is 0 if the CPU path works."""
    findings = [check() for check in CHECKS]
    works = not any(finding.status == "broken" for finding in findings)
    if as_json:
        print(_json(findings, works=works))
    else:
        _print(make_console(), findings, works=works)
    return 0 if works else 1


def _json(findings: list[Finding], *, works: bool) -> str:
    report = {
        "version": __version__,
        "cpu_path_works": works,
        "checks": [asdict(finding) for finding in findings],
    }
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def _print(console: Console, findings: list[Finding], *, works: bool) -> None:
    width = max(len(finding.name) for finding in findings)
    console.print(f"Tilewright {__version__}\n")
    for finding in findings:
        line = Text()
        line.append(f"{finding.status:<8}", style=_STYLES[finding.status])
        line.append(f"{finding.name:<{width}}  {finding.detail}")
        console.print(line)
        if finding.remedy:
            console.print(Text(f"{'':<{width + 10}}-> {finding.remedy}", style="dim"))
    verdict = "The CPU path works." if works else "The CPU path does not work; see `broken` above."
    console.print(f"\n{verdict}", style="green" if works else "bold red")
