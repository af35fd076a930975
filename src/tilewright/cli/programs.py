"""Turns what a user names on the command line into a program: `GMM:0`, `file.py:func`."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright import te
from tilewright.errors import TilewrightError, TuneError
from tilewright.ir import IRModule, PrimFunc
from tilewright.support.suggestions import did_you_mean
from tilewright.workloads import CONFIGS, create_te_workload

_ARROW = " --> "  # stands before the place in errors that show a line of source
_FORMS = "write FILE.py:NAME, or WORKLOAD or WORKLOAD:INDEX with one of "
_KNOWN = ", ".join(CONFIGS)
MODEL_SUFFIXES = (".onnx", ".twm")  # ONNX's, and ours


@dataclass(frozen=True)
class Program:
    """A function to work on, and what to call it."""

    name: str
    func: PrimFunc
    workload: str | None = None  # the key and
    arguments: tuple[int, ...] = ()  # the shape of a named workload

    @property
    def mod(self) -> IRModule:
        """The program as a module of its own."""
        return IRModule({"main": self.func})


@dataclass(frozen=True)
class NamedValue:
    """What a text names: a value of a file of Python, the file of a model, or a workload."""

    text: str
    path: Path | None = None
    name: str = ""  # in a file of Python
    value: object = None  # what it is, or what it returns when it is called without arguments

    @property
    def is_model_file(self) -> bool:
        """A model by its suffix."""
        return self.path is not None and self.path.suffix in MODEL_SUFFIXES


def open_text(text: str) -> NamedValue:
    """What a text stands for; a file of Python is run, once."""
    if Path(text).suffix in MODEL_SUFFIXES:
        return NamedValue(text, Path(text))
    path, name = _split_file(text)
    return NamedValue(text) if path is None else _from_file(text, path, name)


def programs_of(named: NamedValue) -> list[Program]:
    """The functions that a text stands for: one, or all those of a module."""
    if named.is_model_file:
        raise TuneError(f"{named.text} is a model, expected a program; {_FORMS}{_KNOWN}")
    return _workload(named.text) if named.path is None else _as_programs(named)


def load_program(text: str) -> Program:
    """The one function that a text stands for."""
    return single_program(open_text(text))


def single_program(named: NamedValue) -> Program:
    """The one function that something named in a text is."""
    found = programs_of(named)
    if len(found) > 1:
        names = ", ".join(program.name for program in found)
        raise TuneError(f"{named.text} is a module of {len(found)} functions, choose one: {names}")
    return found[0]


def open_all(texts: Sequence[str]) -> list[NamedValue]:
    """What some texts stand for."""
    return [open_text(text) for text in texts]


def all_programs(opened: Sequence[NamedValue]) -> list[Program]:
    """All functions; names that occur twice get a number."""
    found: list[Program] = []
    names: dict[str, int] = {}
    for program in (program for named in opened for program in programs_of(named)):
        names[program.name] = seen = names.get(program.name, 0) + 1
        label = program.name if seen == 1 else f"{program.name}#{seen}"
        found.append(Program(label, program.func, program.workload, program.arguments))
    return found


def load_function(text: str, option: str) -> Callable[..., Any]:
    """The Python function of a file that an option names: `file.py:name`.

    What it raises is shown in one line.
    """
    path, name = _split_file(text)
    if path is None or not name:
        raise TuneError(f"{option} {text}: expected FILE.py:NAME, a Python function of a file")
    module = _import(path)
    found = getattr(module, name, None)
    if not callable(found):
        functions = [known for known, value in vars(module).items() if callable(value)]
        raise TuneError(f"{path} has no function {name!r}{did_you_mean(name, functions)}")

    def call(*arguments: object) -> Any:
        try:
            return found(*arguments)
        except (Exception, SystemExit) as error:
            what = f"cannot call {name}() with {len(arguments)} arrays"
            raise _failure(path, what, error) from error

    return call


# --- named workloads ----------------------------------------------------------------------------


def _workload(text: str) -> list[Program]:
    name, _, number = text.partition(":")
    if name not in CONFIGS:
        hint = did_you_mean(name, CONFIGS, list_all=False)
        raise TuneError(f"there is no workload {name!r}{hint or f'; {_FORMS}{_KNOWN}'}")
    shapes = CONFIGS[name][1]
    if number and not (number.isdecimal() and int(number) < len(shapes)):
        listed = "; ".join(f"{name}:{i} {shape}" for i, shape in enumerate(shapes))
        raise TuneError(f"workload {name} has no shape {number!r}; it has {listed}")
    index = int(number or 0)
    return [Program(f"{name}:{index}", create_te_workload(name, index), name, shapes[index])]


# --- files --------------------------------------------------------------------------------------


def _split_file(text: str) -> tuple[Path | None, str]:
    """The file and the name in it; no file if the text is not about one."""
    head, colon, name = text.rpartition(":")
    if colon and head.endswith(".py"):
        return Path(head), name
    if text.endswith(".py") or "/" in text or "\\" in text:
        return Path(text), ""
    return None, ""


def _from_file(text: str, path: Path, name: str) -> NamedValue:
    module = _import(path)
    offered = [known for known, value in vars(module).items() if _may_be_program(module, value)]
    listed = f"offers {', '.join(offered)}" if offered else "holds no program"
    if not name:
        if len(offered) != 1:
            raise TuneError(f"{path} {listed}; write {path}:NAME")
        (name,) = offered
    if not hasattr(module, name):
        hint = did_you_mean(name, offered, list_all=False)
        raise TuneError(f"{path} has no {name!r}{hint or f'; it {listed}'}")
    return NamedValue(text, path, name, _called(path, name, getattr(module, name)))


def _may_be_program(module: ModuleType, value: object) -> bool:
    """True for a program, and for a function that may return one."""
    if not inspect.isfunction(value):
        return isinstance(value, PrimFunc | IRModule)
    if value.__module__ != module.__name__:
        return False
    parameters = inspect.signature(value).parameters.values()
    return all(parameter.default is not parameter.empty for parameter in parameters)


def _import(path: Path) -> ModuleType:
    """Run a user's file. What it raises is reported with the line it comes from."""
    if not path.is_file():
        folder = path.parent
        known = [other.name for other in folder.glob("*.py")] if folder.is_dir() else []
        hint = did_you_mean(path.name, known, list_all=False)
        raise TuneError(f"there is no file {path}{hint}")
    spec = importlib.util.spec_from_file_location(f"tilewright_program_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise TuneError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as scripts and dataclasses look for their own module
    if str(path.parent.resolve()) not in sys.path:
        sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _failure(path, "does not run", error) from error
    return module


def _failure(path: Path, what: str, error: BaseException) -> TilewrightError:
    """What a user's file raised, with the line; errors of scripts show it themselves."""
    if isinstance(error, TilewrightError) and _ARROW in str(error):
        return error
    own = path.resolve()
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if Path(frame.filename).resolve() == own]
    place = f" (line {frames[-1].lineno})" if frames else ""
    kind = "" if isinstance(error, TilewrightError) else f"{type(error).__name__}: "
    text = " ".join(str(error).split())
    return TuneError(f"{path} {what}: {kind}{text}{place}")


def _called(path: Path, name: str, value: object) -> object:
    """A value of a file, or what it returns if it is a function."""
    if not callable(value) or isinstance(value, PrimFunc | IRModule) or is_of_torch(value):
        return value
    try:
        return value()
    except Exception as error:
        raise _failure(path, f"cannot call {name}()", error) from error


def is_of_torch(value: object) -> bool:
    """True for modules and exported programs of PyTorch, which need not be imported for that."""
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)


def _as_programs(named: NamedValue) -> list[Program]:
    """The program that a value of a file is."""
    path, name, value = named.path, named.name, named.value
    match value:
        case PrimFunc():
            return [Program(name, value)]
        case IRModule():
            if not value.functions:
                raise TuneError(f"{name} in {path} is a module without functions")
            single = len(value.functions) == 1
            return [
                Program(name if single else inner, func) for inner, func in value.functions.items()
            ]
        case te.Tensor():
            raise TuneError(
                f"{name} in {path} returns one tensor; return a list of the inputs and the outputs"
            )
        case list() | tuple() if value and all(isinstance(item, te.Tensor) for item in value):
            return [Program(name, te.create_prim_func(list(value)))]
    raise TuneError(
        f"{name} in {path} is {type(value).__name__}, expected a T.prim_func, an I.ir_module, or a "
        "function that returns one of them or a list of tensors"
    )
