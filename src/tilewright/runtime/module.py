"""Compiled modules: callable, timeable, printable, exportable."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.codegen.artifact import Artifact, Kernel, Library
from tilewright.codegen.base import Texts
from tilewright.codegen.module_info import FunctionInfo, ModuleInfo
from tilewright.codegen.registry import find_backend
from tilewright.errors import KernelAssertError, OverlapError, RuntimeFailure
from tilewright.lowering.host_abi import ArgumentSpec, describe
from tilewright.lowering.prepacking import packing_of
from tilewright.runtime.arguments import ArgumentBinder, BoundArguments, size_of
from tilewright.runtime.binding import BoundFunction, bind
from tilewright.runtime.devices import Device, device
from tilewright.runtime.packed_call import failure_of
from tilewright.runtime.registry import get_global_func
from tilewright.runtime.tensor_view import view_of
from tilewright.runtime.timing import BenchmarkResult, EvaluatorOptions, evaluate
from tilewright.support.files import write_whole
from tilewright.support.suggestions import did_you_mean

# The name under which scripts written for TVM ask for a cold cache.
_FLUSH_ALL_BUT_FIRST = "cache_flush_cpu_non_first_arg"


@dataclass(frozen=True)
class Unrunnable:
    """Stands for code that this machine cannot run; looking up a function says why."""

    reason: str

    def kernel(self, name: str, /) -> Kernel:
        raise RuntimeFailure(f"{name}() cannot run: {self.reason}")


class CompiledFunction:
    """One function of a compiled module; call it with arrays and numbers."""

    def __init__(self, info: FunctionInfo, module: ModuleInfo, library: Library) -> None:
        self.name = info.name
        self.signature = info.signature
        self.device = device(module.device)
        self._run = library.kernel(info.name)
        alignment = self.device.api.alignment
        self._binder = ArgumentBinder(
            info.name, info.signature, info.no_alias, module.device, alignment
        )
        self._messages = module.messages
        self._owner = library  # the code lives as long as its module
        # The same function for arrays that overlap; None: such arguments are refused.
        self.for_overlaps: Callable[[], CompiledFunction] | None = None

    @property
    def address(self) -> int:
        """Of the machine code that takes its arguments from slots."""
        return ctypes.cast(self._run, ctypes.c_void_p).value or 0  # type: ignore[arg-type]

    def __call__(self, *args: object) -> None:
        function, (slots, keep) = self._bound(args)
        status = function._run(slots)
        del keep
        if status:
            raise self._failure(status)

    def _bound(self, args: Sequence[object]) -> tuple[CompiledFunction, BoundArguments]:
        """The arguments as compiled code takes them, and the function that may be given them."""
        try:
            return self, self._binder.bind(args)
        except OverlapError:
            if self.for_overlaps is None:
                raise
            function = self.for_overlaps()
            return function, function._binder.bind(args)

    def time_evaluator(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
        *,
        flush: bool = False,
    ) -> Callable[..., BenchmarkResult]:
        """A function that takes the same arguments and returns how long a run takes.

        Each of `repeat` results is the mean of `number` runs in a row; `number` grows until the row
        takes `min_repeat_ms`, and later calls go on with it. With `flush` the arrays are not in any
        cache when a row starts (so number=1 is what makes sense). `f_preproc` names a global
        function that is called with the arguments before every row.
        """
        rows = number, repeat, min_repeat_ms, limit_zero_time_iterations
        options = EvaluatorOptions(*rows, cooldown_interval_ms, repeats_to_cooldown)
        return _Evaluator(self, options, f_preproc, flush)

    def measure(
        self,
        args: Sequence[object],
        options: EvaluatorOptions,
        prepare: Callable[[], object] | None,
    ) -> tuple[BenchmarkResult, int]:
        """Seconds of a run, and how many runs a row had in the end."""
        function, (slots, keep) = self._bound(args)
        run = functools.partial(self.device.api.time, function._run, slots)
        outcome = evaluate(run, options, prepare)
        del keep
        if outcome.result is None:
            raise self._failure(outcome.status)
        return outcome.result, outcome.number

    def run_in_a_row(self, args: Sequence[object], number: int = 1) -> float:
        """Run `number` times back to back, without warm-up; the seconds of all runs together."""
        function, (slots, keep) = self._bound(args)
        timing = self.device.api.time(function._run, slots, number)
        del keep
        if timing.status:
            raise self._failure(timing.status)
        return timing.nanoseconds * 1e-9

    def _failure(self, status: int) -> BaseException:
        if 0 < status <= len(self._messages):
            return KernelAssertError(f"{self.name}(): {self._messages[status - 1]}")
        found = failure_of(self.name, status)
        return found or RuntimeFailure(f"{self.name}() returned status {status}")

    def __repr__(self) -> str:
        arguments = ", ".join(describe(spec) for spec in self.signature)
        return f"<compiled {self.name}({arguments})>"


@dataclass
class _Evaluator:
    """What `time_evaluator` returns; remembers how many runs make a row long enough."""

    function: CompiledFunction
    options: EvaluatorOptions
    f_preproc: str = ""
    flush: bool = False
    _number: int = field(default=0, init=False)

    def __call__(self, *args: object) -> BenchmarkResult:
        options = replace(self.options, number=self._number or self.options.number)
        result, self._number = self.function.measure(args, options, self._preparation(args))
        return result

    def _preparation(self, args: Sequence[object]) -> Callable[[], object] | None:
        if self.flush or self.f_preproc == _FLUSH_ALL_BUT_FIRST:
            signature = self.function.signature
            cold = [
                arg for arg, spec in zip(args, signature, strict=False) if spec.kind == "buffer"
            ]
            views = [view_of(arg) for arg in (cold if self.flush else cold[1:])]
            memory = [(view.address, size_of(view)) for view in views if view and view.dtype]
            return lambda: self.function.device.api.evict(memory)
        if self.f_preproc:
            function = get_global_func(self.f_preproc)
            return lambda: function(*args)
        return None


@dataclass(frozen=True)
class ModuleSources:
    """Every text a module can show, by format, its own source first; made when asked for."""

    make: Callable[[], Texts]
    missing: str = ""  # what to say if there is nothing at all

    def get(self, fmt: str | None = None) -> str:
        """The text in one format."""
        texts = self.make()
        if not texts:
            raise RuntimeFailure(self.missing)
        chosen = next(iter(texts)) if fmt is None else fmt
        if chosen not in texts:
            known = ", ".join(map(repr, texts))
            raise RuntimeFailure(f"no source in format {fmt!r}; there are {known}")
        return texts[chosen]()


class Module:
    """Compiled functions, loaded into this process."""

    def __init__(
        self,
        info: ModuleInfo,
        library: Library,
        sources: ModuleSources,
        artifact: Artifact | None = None,
    ) -> None:
        self.info = info
        self.sources = sources
        self._library = library
        # Made when first asked for.
        self._artifact: Callable[[], Artifact | None] = lambda: artifact
        self._prepacked: Callable[[], Module | None] = lambda: None
        self._overlapping: Callable[[], Module] | None = None
        self._infos = {function.name: function for function in info.functions}
        self._functions: dict[str, CompiledFunction] = {}

    @property
    def artifact(self) -> Artifact | None:
        """The code that was compiled; None for a module that was loaded from a library."""
        return self._artifact()

    def with_artifact(self, make: Callable[[], Artifact | None]) -> Module:
        """This module, which knows how its code is compiled again should anybody ask for it."""
        self._artifact = functools.cache(make)
        return self

    @property
    def device(self) -> Device:
        """Where its functions run."""
        return device(self.info.device)

    @property
    def entry_name(self) -> str:
        """The function that a call of the module runs: `main`, or the only one."""
        kernels = [name for name in self._infos if packing_of(name) is None]
        return kernels[0] if "main" not in kernels and len(kernels) == 1 else "main"

    def __call__(self, *args: object) -> None:
        self[self.entry_name](*args)

    def __getitem__(self, name: str) -> CompiledFunction:
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._load(name)
        return function

    def _load(self, name: str) -> CompiledFunction:
        info = self._infos.get(name)
        if info is None:
            hint = did_you_mean(str(name), self._infos)
            raise RuntimeFailure(f"the module has no function {name!r}{hint}")
        function = CompiledFunction(info, self.info, self._library)
        overlapping = self._overlapping
        if overlapping is not None:
            function.for_overlaps = lambda: overlapping()[name]
        return function

    def with_overlaps(self, make: Callable[[], Module]) -> Module:
        """This module, which knows how the same is made for arguments that overlap."""
        self._overlapping = functools.cache(make)
        return self

    def get_function(self, name: str) -> CompiledFunction:
        """The function called `name`."""
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def bind(self, **arrays: object) -> BoundFunction:
        """Fix arguments of the entry by name; what comes back takes the others, in their order.

        Weights that the kernel wants in a layout of its own are packed here, once, where a plain
        call packs them each time. Bound arrays must not be written to afterwards: bind again.
        """
        return bind(self, arrays)

    def with_prepacked(self, make: Callable[[], Module | None]) -> Module:
        """This module, which now knows how its `prepacked` one is made; None: nothing is packed."""
        self._prepacked = functools.cache(make)
        return self

    def prepacked(self) -> Module | None:
        """The same functions for packed weights, and those that pack; None if nothing is packed."""
        return self._prepacked()

    def signature(self, name: str | None = None) -> tuple[ArgumentSpec, ...]:
        """What a function (the entry, if none is named) takes."""
        chosen = name or self.entry_name
        # Asking for a function that there is not says which there are.
        return self._infos[chosen].signature if chosen in self else self[chosen].signature

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
        *,
        flush: bool = False,
    ) -> Callable[..., BenchmarkResult]:
        """A timer of one function; `dev` is there for scripts written for TVM."""
        rows = number, repeat, min_repeat_ms, limit_zero_time_iterations
        pauses = cooldown_interval_ms, repeats_to_cooldown
        return self[func_name].time_evaluator(*rows, *pauses, f_preproc, flush=flush)

    def get_source(self, fmt: str | None = None) -> str:
        """The module as text: what was compiled, or in a format such as "asm" or "script"."""
        return self.sources.get(fmt)

    @property
    def resources(self) -> Mapping[str, Mapping[str, int]]:
        """Registers, spills and shared bytes of each kernel, as the compiler of a GPU reports."""
        artifact = self.artifact
        return {} if artifact is None else find_backend(artifact.kind).resources(artifact)

    def export_library(
        self, path: str | Path, *, symbols: Mapping[str, str] | None = None
    ) -> tuple[Path, ...]:
        """Write the module to a file; its suffix decides what: `.so`, `.o`, `.ll`, `.s`, `.c`.

        Of a module for a GPU `.cubin` is the machine code, with all that `load_module` needs, and
        `.cu`, `.ptx` and `.sass` are texts.

        A shared library needs nothing of Tilewright. It comes with a C header and an example
        program, and `load_module` gives the module back. `symbols` renames functions for C; without
        it they keep their names, except that `main` becomes `<library>_main`. Returns the files
        written.
        """
        file = Path(path)
        if self.artifact is None:
            raise RuntimeFailure(
                f"cannot export {file.name}: the module was loaded from a library; copy the "
                "library instead"
            )
        try:
            backend = find_backend(self.artifact.kind)
            texts, exporters = backend.text_files, backend.exporters()
            if file.suffix in texts:
                write_whole(file, self.get_source(texts[file.suffix]))
                return (file,)
            if file.suffix not in exporters:
                known = ", ".join([*exporters, *texts])
                raise RuntimeFailure(
                    f"cannot export {file.name}: expected a name that ends in one of {known}"
                )
            return exporters[file.suffix](file, self.info, self.artifact, symbols or {})
        except OSError as error:
            raise RuntimeFailure(f"cannot export {file}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        place = self.info.triple or self.info.target
        return f"<module of {', '.join(self._infos) or 'no functions'} for {place}>"
