"""The import hook: modules of TVM made of ours, as `names.py` says.

A module made here holds nothing of its own: an attribute is looked up in the modules of ours that
stand for it when somebody asks. While the hook is active no other `tvm` can be imported, installed
or not.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tilewright.compat.differences import reason_for
from tilewright.compat.names import MODULES, NAMES, SAME_PATHS
from tilewright.support.suggestions import did_you_mean

ROOT = "tvm"
PAGE = "docs/coming_from_tvm.md"


class TvmFinder(MetaPathFinder):
    """Answers for `tvm` and everything below it, and for nothing else."""

    package = ROOT
    install = "tilewright.compat.finder:install"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != ROOT:
            return None
        if sources_of(fullname) is None:
            # No `name=`: with it `from tvm.tir import X` would swallow the message.
            raise ModuleNotFoundError(_explain(fullname))
        return ModuleSpec(fullname, TvmLoader(), is_package=True)


class TvmLoader(Loader):
    """Makes modules that look names up in ours."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return TvmModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs: modules of ours are imported when a name of theirs is asked for."""


class TvmModule(ModuleType):
    """A module of TVM that consists of modules of ours."""

    def __getattr__(self, name: str) -> Any:
        path = f"{self.__name__}.{name}"
        if name == "__all__":
            return dir(self)
        if name.startswith("__") and path not in NAMES:
            raise AttributeError(name)
        if path in NAMES:
            return _object_at(NAMES[path])
        if path in MODULES:
            return importlib.import_module(path)
        for source in sources_of(self.__name__) or ():
            found = getattr(importlib.import_module(source), name, _ABSENT)
            if found is not _ABSENT and not isinstance(found, ModuleType):
                return found
        if sources_of(path) is not None:
            return importlib.import_module(path)
        raise AttributeError(_explain(path, dir(self)))

    def __dir__(self) -> list[str]:
        prefix = f"{self.__name__}."
        below = {
            path.removeprefix(prefix) for path in (*MODULES, *NAMES) if path.startswith(prefix)
        }
        sources = sources_of(self.__name__) or ()
        ours = {name for source in sources for name in _public_names(source)}
        return sorted(ours | {name for name in below if "." not in name})


_ABSENT = object()


@functools.cache
def sources_of(path: str) -> tuple[str, ...] | None:
    """The modules of ours that a module of TVM consists of; None where there are none."""
    known = MODULES.get(path)
    if known is not None or not path.startswith(SAME_PATHS):
        return known
    ours = path.replace(ROOT, "tilewright", 1)
    try:
        importlib.import_module(ours)
    except ModuleNotFoundError:
        return None
    return (ours,)


def _public_names(source: str) -> list[str]:
    """Names of a module of ours; its parts have paths of their own, or are not offered."""
    module = importlib.import_module(source)
    names = getattr(module, "__all__", None) or dir(module)
    return [
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)
    ]


def _object_at(path: str) -> Any:
    """What a path such as `tilewright.errors.ScriptError` names."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return getattr(_object_at(module), name)


def _explain(path: str, known: Sequence[str] = ()) -> str:
    reason = reason_for(path)
    if reason:
        return f"tilewright has no {path!r}: {reason} (see {PAGE})"
    hint = did_you_mean(path.rpartition(".")[2], known, list_all=False)
    return f"tilewright has no {path!r}{hint}; {PAGE} lists what differs"


def install() -> TvmFinder:
    """Let `import tvm` import us from now on."""
    finder = TvmFinder()
    sys.meta_path.insert(0, finder)
    return finder


@contextmanager
def tvm_imports() -> Iterator[None]:
    """Let `import tvm` import us; what was imported under that name before is back afterwards."""
    hidden = _take_modules()
    finder = install()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take_modules()
        sys.modules.update(hidden)


def _take_modules() -> dict[str, ModuleType]:
    """Every imported module of that name, which is then no longer imported."""
    names = [name for name in sys.modules if name.partition(".")[0] == ROOT]
    return {name: sys.modules.pop(name) for name in names}
