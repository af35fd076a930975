"""Keys of kept code: a digest of what it was made from, by what, and for which processor."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
from functools import lru_cache
from pathlib import Path

from tilewright.version import __version__

_CPUINFO = Path("/proc/cpuinfo")
# Lines of a processor that say where or how it is just now.
_PASSING_STATE = ("processor", "cpu mhz", "bogomips", "apicid", "initial apicid", "core id")
_FOLDERS = ("arith", "codegen", "ir", "lowering", "native", "runtime", "target")


def key_of(*parts: str) -> str:
    """A key of some texts, of this machine, and of everything that compiles."""
    digest = hashlib.sha256()
    for part in (*_compilers(), *_machine(), *parts):
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _compilers() -> tuple[str, ...]:
    """Our version and LLVM's, and the state of their files: who edits them gets other code."""
    package = Path(__file__).parents[2]
    sources = [path for name in _FOLDERS for path in sorted((package / name).rglob("*.py"))]
    spec = importlib.util.find_spec("llvmlite")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else package
    libraries = [folder / "_version.py", *sorted((folder / "binding").glob("libllvmlite*"))]
    files = [(path.name, path.stat()) for path in (package / "driver.py", *sources, *libraries)]
    return __version__, *(f"{name} {file.st_size} {file.st_mtime_ns}" for name, file in files)


@lru_cache(maxsize=1)
def _machine() -> tuple[str, ...]:
    """The processor and how much of it we may use."""
    try:
        with _CPUINFO.open() as file:
            first = file.read(8192).split("\n\n")[0].splitlines()
    except OSError:
        first = [platform.processor()]
    lasting = [line for line in first if not line.lower().startswith(_PASSING_STATE)]
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count()
    return platform.machine(), platform.system(), str(cores), "\n".join(lasting)
