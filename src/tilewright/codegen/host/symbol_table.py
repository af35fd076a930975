"""Functions of loaded code by their symbols."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod

from tilewright.codegen.artifact import Kernel
from tilewright.native.abi import PACKED_SUFFIX

PACKED_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class SymbolTable(ABC):
    """Code that is loaded into this process."""

    @abstractmethod
    def __getitem__(self, symbol: str, /) -> int:
        """The address of a symbol."""

    def kernel(self, name: str) -> Kernel:
        """A function that takes its arguments as 8-byte slots."""
        return PACKED_TYPE(self[name + PACKED_SUFFIX])
