"""`load_module`: an exported library as a module again."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from tilewright.errors import RuntimeFailure
from tilewright.runtime import packed_call, threads
from tilewright.runtime.export import SET_HANDLER_SYMBOL, SET_THREADS_SYMBOL
from tilewright.runtime.library_file import read_description
from tilewright.runtime.module import Module, ModuleSources
from tilewright.runtime.module_info import why_unrunnable


class SharedLibrary:
    """A library loaded by the system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = ctypes.CDLL(str(path.resolve()), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            raise RuntimeFailure(f"cannot load {path}: {error}") from error

    def __getitem__(self, symbol: str) -> int:
        return ctypes.cast(self.function(symbol), ctypes.c_void_p).value or 0

    def function(self, symbol: str) -> Any:
        """A function of the library, as ctypes calls it."""
        try:
            return self._handle[symbol]
        except AttributeError as error:
            raise RuntimeFailure(f"{self.path} does not define {symbol!r}") from error

    def set_num_threads(self, count: int) -> None:
        """Tell the library's own thread pool how many threads to use."""
        self.call(SET_THREADS_SYMBOL, ctypes.c_int32(count))

    def call(self, symbol: str, argument: Any) -> None:
        """Call a function that takes one argument and returns nothing."""
        function = self.function(symbol)
        function.restype = None
        function(argument)


def load_module(path: str | Path) -> Module:
    """Load what `Module.export_library` wrote to a shared library.

    Damaged and foreign files, and libraries that this machine cannot run, are refused before
    anything of them is loaded.
    """
    file = Path(path)
    description = read_description(file)
    reason = why_unrunnable(description.module)
    if reason:
        raise RuntimeFailure(f"cannot load {file}: {reason}; export it for this machine")
    library = SharedLibrary(file)
    if description.has_threads:
        threads.follow(library)
    if description.calls_packed:
        library.call(SET_HANDLER_SYMBOL, ctypes.c_void_p(packed_call.handler_address()))
    missing = f"a module loaded from a library has no source; {file.name} holds machine code only"
    return Module(description.module, library, ModuleSources({}, missing))
