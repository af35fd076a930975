"""Options and arguments that several commands have, and their work, loaded when it is asked for."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

DEFAULT_DATABASE = Path(".tilewright") / "records.db"


def option(usage: str, help: str, **more: Any) -> Any:
    """An option as its help shows it: `option("--output -o FILE", "Where to write.")`."""
    words = usage.split()
    value = None if words[-1].startswith("-") else words.pop()
    return typer.Option(*words, metavar=value, help=help, **more)


def argument(usage: str, help: str) -> Any:
    """The same for an argument, which has no name but that in the help."""
    return typer.Argument(metavar=usage, help=help)


DatabaseOption = Annotated[
    str | None,
    option(
        "--db URL",
        "Database of records: a path, sqlite:///PATH, postgresql://USER@HOST/NAME, "
        "json:DIRECTORY or memory: "
        f"[default: {DEFAULT_DATABASE}]",
    ),
]
TargetOption = Annotated[str, option("--target TARGET", "What to compile for.")]
JsonOption = Annotated[bool, option("--json", "Print JSON instead of text.")]
PROGRAM_FORMS = "FILE.py:FUNC or WORKLOAD[:INDEX], such as GMM:0"
ProgramArgument = Annotated[str, argument("PROGRAM", f"{PROGRAM_FORMS}.")]
ModelArgument = Annotated[
    str,
    argument(
        "MODEL",
        "FILE.onnx, or FILE.py:FUNC of a function that returns a graph, a program of "
        "torch.export, or a torch.nn.Module with its inputs.",
    ),
]
OutputOption = Annotated[
    Path | None,
    option(
        "--output -o FILE",
        "Where to save a model: NAME.twm, or NAME.so for a library with a C header.",
    ),
]
CostModelOption = Annotated[
    Path | None,
    option(
        "--cost-model FILE",
        "Begin with what `tilewright dataset train` learned from other programs.",
    ),
]
DimOption = Annotated[
    list[str] | None, option("--dim NAME=N", "The size of a model's dimension: batch=1.")
]
ShapeOption = Annotated[
    list[str] | None, option("--shape INPUT=AxBxC", "The shape of a model's input: x=1x3x224x224.")
]
LayoutOption = Annotated[
    str | None,
    option("--layout LAYOUT", "Inside a model: nhwc (channels last), or nchw as in most models."),
]
WinogradOption = Annotated[
    bool,
    option(
        "--winograd/--no-winograd",
        "Inside a model: Winograd's tiles for convolutions where they are faster; they "
        "round a little more, which is reported.",
    ),
]
ClusterOption = Annotated[
    str | None,
    option(
        "--on CLUSTER",
        "Build and measure on a Ray cluster: ray://HOST:PORT, or ray for one that is started here.",
    ),
]
SpaceOption = Annotated[
    str,
    option(
        "--space NAME", "A space generator, or a kind of target whose rules to use: llvm, cuda, ..."
    ),
]


def work_of(name: str) -> ModuleType:
    """The module of this package that does the work of a command, so that `--help` needs none."""
    return importlib.import_module(f"tilewright.cli.{name}")


_MODEL_OPTIONS = {
    "dim": (DimOption, None),
    "shape": (ShapeOption, None),
    "layout": (LayoutOption, None),
    "winograd": (WinogradOption, True),
}


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `reading` stands for options that say how to read a model.

    They stand where it does: the order of parameters is that of the help text.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        options = [given.pop(name) for name in _MODEL_OPTIONS]
        command(reading=work_of("models").parse_options(*options), **given)

    # The type of `reading` is imported with the work, not here.
    own = inspect.signature(command, locals={"ModelOptions": object}, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=default, annotation=option)
        for name, (option, default) in _MODEL_OPTIONS.items()
    ]
    parameters = [
        part
        for name, parameter in own.parameters.items()
        for part in (options if name == "reading" else [parameter])
    ]
    run.__annotations__ = {part.name: part.annotation for part in parameters}
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
