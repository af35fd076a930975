"""Compiled candidates as values: code, and all that is needed to load and to check it.

Inside one machine a builder may keep them in files; runners take either.

Not a shared library: those bring a thread pool of their own, and linking one takes as long as
compiling the kernel. The runner links the object in memory, to the threads it has already.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tilewright import driver
from tilewright.codegen.artifact import Artifact
from tilewright.codegen.module_info import ModuleInfo
from tilewright.errors import RuntimeFailure
from tilewright.measure.tolerance import Rounding
from tilewright.runtime.loading import load_module
from tilewright.runtime.module import Module, ModuleSources, Unrunnable

SUFFIX = ".kernel"
CANDIDATE = "candidate"  # the kind of artefact
_LIBRARY_SUFFIXES = (".so", ".dylib")
_MISSING = "a candidate that was loaded from its artefact has no source"


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The data of an artefact of kind `CANDIDATE`."""

    info: ModuleInfo
    artifact: Artifact
    rounding: Rounding


def precise_name(name: str) -> str:
    """What a function is called that computes the same as another one in higher precision."""
    return f"{name}.precise"


def name_of(given: Artifact | str) -> str:
    """What tells an artefact from others: its digest, or its path."""
    return given if isinstance(given, str) else given.digest


_decoder = msgspec.msgpack.Decoder(_Stored)


def read_artifact(path: str) -> Artifact | None:
    """The file of a builder as a value; None if it is none that could be loaded elsewhere."""
    file = Path(path)
    if file.suffix != SUFFIX or not file.is_file():
        return None
    return Artifact(CANDIDATE, file.read_bytes())


def write_artifact(path: Path, module: Module, rounding: Rounding) -> None:
    """Write a module that was compiled here."""
    if module.artifact is None:
        raise RuntimeFailure(
            "the module to export was loaded from a library; export what tilewright.build() or "
            "f_build made here, or give an f_export of your own"
        )
    stored = _Stored(module.info, module.artifact, rounding)
    path.write_bytes(msgspec.msgpack.encode(stored))


def load_artifact(given: Artifact | str) -> tuple[Module, Rounding]:
    """Load an artefact into this process, and say how its results may differ from others'.

    Files are taken, too, and so are shared libraries that `Module.export_library` wrote.
    """
    if isinstance(given, str) and Path(given).suffix in _LIBRARY_SUFFIXES:
        return load_module(given), Rounding()
    name = name_of(given)
    try:
        stored = _decoder.decode(Path(given).read_bytes() if isinstance(given, str) else given.data)
    except OSError as error:
        raise RuntimeFailure(f"cannot load {name}: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise RuntimeFailure(
            f"cannot load {name}: expected an artefact of LocalBuilder ({SUFFIX}) or a library of "
            f"Module.export_library (.so); {error}"
        ) from error
    not_loaded = Unrunnable("it was not loaded")
    unloaded = Module(stored.info, not_loaded, ModuleSources(dict, _MISSING), stored.artifact)
    return driver.load(unloaded), stored.rounding
