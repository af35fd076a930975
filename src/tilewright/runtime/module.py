"""Compiled modules: callable, timeable, printable, exportable."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import KernelAssertError, RuntimeFailure
from tilewright.lower.host_abi import ArgumentSpec
from tilewright.runtime import thread_pool
from tilewright.runtime.arguments import bind_arguments, describe
from tilewright.runtime.jit import CompiledObject, LoadedLibrary, load_objects
from tilewright.runtime.timing import BenchmarkResult, EvaluatorOptions, evaluate

PACKED_SUFFIX = ".packed"
_PACKED_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class CompiledFunction:
    """One function of a compiled module; call it with arrays and numbers."""

    def __init__(
        self,
        name: str,
        signature: Sequence[ArgumentSpec],
        address: int,
        messages: Sequence[str],
        owner: object,
    ) -> None:
        self.name = name
        self.signature = tuple(signature)
        self._address = address
        self._call = _PACKED_TYPE(address)
        self._messages = tuple(messages)
        self._owner = owner  # the code lives as long as its module

    def __call__(self, *args: Any) -> None:
        bound = bind_arguments(self.name, self.signature, args)
        status = self._call(bound.slots)
        if status:
            raise self._failure(status)

    def time_evaluator(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        flush: bool = False,
    ) -> Callable[..., BenchmarkResult]:
        """A function that takes the same arguments and returns how long a run takes."""
        options = EvaluatorOptions(number, repeat, min_repeat_ms, cooldown_interval_ms, flush)

        def timed(*args: Any) -> BenchmarkResult:
            bound = bind_arguments(self.name, self.signature, args)
            slots = ctypes.create_string_buffer(bound.slots, len(bound.slots) or 1)
            status, result = evaluate(self._address, slots, options)
            if result is None:
                raise self._failure(status)
            return result

        return timed

    def _failure(self, status: int) -> RuntimeFailure:
        if 0 < status <= len(self._messages):
            return KernelAssertError(f"{self.name}(): {self._messages[status - 1]}")
        return RuntimeFailure(f"{self.name}() returned status {status}")

    def __repr__(self) -> str:
        arguments = ", ".join(describe(spec) for spec in self.signature)
        return f"<compiled {self.name}({arguments})>"


@dataclass(frozen=True)
class ModuleSources:
    """Every text a module can show, by format; each is made when asked for."""

    texts: Mapping[str, Callable[[], str]]

    def get(self, fmt: str) -> str:
        """The text in one format."""
        make = self.texts.get(fmt)
        if make is None:
            known = ", ".join(map(repr, self.texts))
            raise RuntimeFailure(f"no source in format {fmt!r}; there are {known}")
        return make()


class Module:
    """Compiled functions, loaded into this process."""

    def __init__(
        self,
        compiled: CompiledObject,
        signatures: Mapping[str, Sequence[ArgumentSpec]],
        messages: Sequence[str],
        sources: ModuleSources,
    ) -> None:
        self.compiled = compiled
        self.sources = sources
        self._library: LoadedLibrary = load_objects([compiled], thread_pool.symbols())
        self._functions = {
            name: CompiledFunction(
                name, signature, self._library[name + PACKED_SUFFIX], messages, self._library
            )
            for name, signature in signatures.items()
        }

    @property
    def entry_name(self) -> str:
        """The function that a call of the module runs: `main`, or the only one."""
        if "main" in self._functions or len(self._functions) != 1:
            return "main"
        return next(iter(self._functions))

    def __call__(self, *args: Any) -> None:
        self[self.entry_name](*args)

    def __getitem__(self, name: str) -> CompiledFunction:
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(map(repr, self._functions)) or "none"
            raise RuntimeFailure(f"the module has no function {name!r}; it has {known}")
        return function

    def get_function(self, name: str) -> CompiledFunction:
        """The function called `name`."""
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval_ms: int = 0,
        flush: bool = False,
    ) -> Callable[..., BenchmarkResult]:
        """A timer of one function; `dev` is there for scripts written for TVM."""
        return self[func_name].time_evaluator(
            number, repeat, min_repeat_ms, cooldown_interval_ms, flush
        )

    def get_source(self, fmt: str = "ll") -> str:
        """The module as "ll", "asm", "c" or "script"."""
        return self.sources.get(fmt)
