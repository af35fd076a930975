"""`compile`: from a program to a function that is called as any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeAlias, TypedDict, overload

from typing_extensions import Unpack

from tilewright import te
from tilewright.database import Database
from tilewright.driver import resolve_target
from tilewright.errors import ArgumentError, TargetError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.jit.function import JitFunction, JitModule
from tilewright.jit.kernels import Kernels
from tilewright.jit.schedules import (
    CompileSettings,
    DatabaseLike,
    Schedules,
    TargetLike,
    TuneLike,
    number_of_sizes,
    parse_tuning,
)
from tilewright.schedule import Schedule

Program: TypeAlias = PrimFunc | Schedule | Sequence[te.Tensor]


class CompileOptions(TypedDict, total=False):
    """What can be said by name; `compile` explains it."""

    tune: TuneLike
    database: DatabaseLike
    specialize: bool | int
    inplace: bool


@overload
def compile(
    program: Program, target: TargetLike = None, **options: Unpack[CompileOptions]
) -> JitFunction: ...
@overload
def compile(
    program: IRModule, target: TargetLike = None, **options: Unpack[CompileOptions]
) -> JitFunction | JitModule: ...
@overload
def compile(
    program: None = None, target: TargetLike = None, **options: Unpack[CompileOptions]
) -> Callable[[object], Any]: ...
def compile(
    program: object = None,
    target: TargetLike = None,
    *,
    tune: TuneLike = None,
    database: DatabaseLike = None,
    specialize: bool | int = True,
    inplace: bool = False,
) -> Any:
    """A function that allocates and returns what a program computes: `y = tw.compile(program)(x)`.

    `program` is a PrimFunc, a list of tensors (inputs and outputs), a `Schedule`, or a module of
    several functions, which are then called as `f.name(x)`. Also a decorator: write `@tw.compile`
    or `@tw.compile(tune="10s")` above `@T.prim_func`. `JitFunction` says how to call the function.

    Nothing is compiled before the first call. Programs get the best schedule that `database` (one
    that is open, or a path; inside `with database:` that one) knows, or one that is calculated
    without a search. With `tune` unknown programs are tuned first, for a number of trials, a time
    (`"10s"`), the usual effort (True), or as the options of `tune_tir` in a dictionary say; records
    go to the database. A `Schedule`, and a program whose loops are parallel, vectorized or unrolled
    already, keep the schedule they have.

    With symbolic shapes the first 8 sizes (`specialize` is another number) get kernels of their
    own; all others share a kernel for every size, and with `specialize=False` all do. With
    `inplace=True` arguments that are read and written are changed where they are.
    """
    where = database if isinstance(database, Database | None) else str(database)
    chosen = resolve_target(target)
    if not chosen.is_cpu:
        raise TargetError(
            f"compile(): results are allocated on the CPU, but the target is {chosen.kind.name!r}; "
            "build() makes functions that take arrays of a GPU"
        )
    settings = CompileSettings(
        chosen,
        parse_tuning(tune),
        Database.current() if where is None else where,
        number_of_sizes(specialize),
        inplace,
    )
    if program is None:
        return lambda decorated: _compiled(decorated, settings)
    return _compiled(program, settings)


def _compiled(program: object, settings: CompileSettings) -> JitFunction | JitModule:
    schedules = Schedules(settings, keeps_schedule=isinstance(program, Schedule))
    functions = {
        name: JitFunction(Kernels(func, name, schedules))
        for name, func in _module_of(program).functions.items()
    }
    return next(iter(functions.values())) if len(functions) == 1 else JitModule(functions)


def _module_of(program: Any) -> IRModule:
    match program:
        case PrimFunc() | IRModule():
            module = as_module(program)
        case Schedule():
            module = program.mod
        case [te.Tensor(), *_]:
            module = as_module(te.create_prim_func(program))
        case FunctionType():
            raise ArgumentError(
                f"compile() got the Python function {program.__name__!r}, expected a program; "
                "write @T.prim_func between it and @tw.compile"
            )
        case _:
            raise ArgumentError(
                "compile() takes a PrimFunc, an IRModule, a Schedule or a list of tensors, got "
                f"{type(program).__name__}"
            )
    if not module.functions:
        raise ArgumentError("compile(): the module has no functions")
    return module
