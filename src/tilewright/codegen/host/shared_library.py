"""Code in this process by its symbols, and libraries that the system loads."""

from __future__ import annotations

import ctypes
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from tilewright.codegen.artifact import Kernel
from tilewright.errors import RuntimeFailure
from tilewright.native.abi import PACKED_SUFFIX, SET_NUM_THREADS

PACKED_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


def _unique_path(number: int) -> str:
    """An open file as a path that was never used: the system finds loaded libraries by path."""
    steps = "".join("./" if bit == "1" else "/" for bit in f"{secrets.randbits(64):064b}")
    return f"/proc/self/fd/{steps}{number}"


class SymbolTable(ABC):
    """Code that is loaded into this process."""

    @abstractmethod
    def __getitem__(self, symbol: str, /) -> int:
        """The address of a symbol."""

    def kernel(self, name: str) -> Kernel:
        """A function that takes its arguments as 8-byte slots."""
        return PACKED_TYPE(self[name + PACKED_SUFFIX])


class SharedLibrary(SymbolTable):
    """A library loaded by the system."""

    def __init__(self, path: Path, place: str | None = None) -> None:
        self.path = path
        try:
            self._handle = ctypes.CDLL(place or str(path.resolve()), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            raise RuntimeFailure(f"cannot load {path}: {error}") from error

    @classmethod
    def of_image(cls, path: Path, image: bytes | memoryview) -> SharedLibrary:
        """A library that lies in another file, `path`; it is loaded without one of its own."""
        if hasattr(os, "memfd_create"):
            with open(os.memfd_create("tilewright"), "wb") as file:
                file.write(image)
                file.flush()
                return cls(path, _unique_path(file.fileno()))
        with tempfile.NamedTemporaryFile(prefix="tilewright-", suffix=".so") as file:
            file.write(image)
            file.flush()
            return cls(path, file.name)

    def __getitem__(self, symbol: str) -> int:
        return ctypes.cast(self.function(symbol), ctypes.c_void_p).value or 0

    def function(self, symbol: str) -> Any:
        """A function of the library, as ctypes calls it."""
        try:
            return self._handle[symbol]
        except AttributeError as error:
            raise RuntimeFailure(f"{self.path} does not define {symbol!r}") from error

    def variable(self, symbol: str, kind: type[Any]) -> Any:
        """A global variable of the library."""
        try:
            return kind.in_dll(self._handle, symbol)
        except ValueError as error:
            raise RuntimeFailure(f"{self.path} does not define {symbol!r}") from error

    def set_num_threads(self, count: int) -> None:
        """Tell the library's own thread pool how many threads to use."""
        self.call(SET_NUM_THREADS, ctypes.c_int32(count))

    def call(self, symbol: str, argument: object) -> None:
        """Call a function that takes one argument and returns nothing."""
        function = self.function(symbol)
        function.restype = None
        function(argument)
