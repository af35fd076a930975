"""Compiling what the C backend prints with the compiler of the machine, and calling it."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.codegen.c.module import generate
from tilewright.codegen.c.types import function_name
from tilewright.errors import CodegenError
from tilewright.ir import IRModule, PrimFunc, Var
from tilewright.testing.oracle import lowered_arguments

_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}
# Contraction into fused multiply-adds is off, so that results equal those of the oracle bit by bit.
_FLAGS = [
    "-std=gnu99",
    "-O1",
    "-shared",
    "-fPIC",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused",
    "-Wno-psabi",
]


class CompiledC:
    """A module compiled from C; functions are called with arrays and numbers."""

    def __init__(self, module: IRModule, folder: Path, compiler: str, *flags: str) -> None:
        self.source = generate(module)
        self._module = module
        digest = hashlib.blake2b(self.source.encode(), digest_size=8).hexdigest()
        source, library = folder / f"{digest}.c", folder / f"{digest}.so"
        source.write_text(self.source)
        command = [compiler, *_FLAGS, *flags, str(source), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CodegenError(f"the C compiler refused:\n{done.stderr}\n{self.source}")
        self._library = ctypes.CDLL(str(library))

    def call(self, *args: Any, name: str = "main") -> int:
        """Call a function; returns its status."""
        func: PrimFunc = self._module[name]
        function = self._library[function_name(name)]
        values = lowered_arguments(func, args)
        function.argtypes = [_c_argument(param) for param in func.params]
        return int(function(*_c_values(values)))

    def last_error(self) -> str:
        function = self._library["tw_last_error"]
        function.restype = ctypes.c_char_p
        return str(function().decode())


def _c_argument(param: Var) -> Any:
    return ctypes.c_void_p if param.dtype.is_handle else _SCALARS[param.dtype]


def _c_values(values: Sequence[Any]) -> list[Any]:
    return [value.ctypes.data if isinstance(value, np.ndarray) else value for value in values]
