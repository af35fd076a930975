"""Options and arguments that several commands have, and their work, loaded when it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

DEFAULT_DATABASE = Path(".tilewright") / "records.db"

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database of records: a path, sqlite:///PATH, json:DIRECTORY or memory: "
        f"[default: {DEFAULT_DATABASE}]",
    ),
]
TargetOption = Annotated[
    str, typer.Option("--target", metavar="TARGET", help="What to compile for.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
PROGRAM_FORMS = "FILE.py:FUNC or WORKLOAD[:INDEX], such as GMM:0"
ProgramArgument = Annotated[str, typer.Argument(metavar="PROGRAM", help=f"{PROGRAM_FORMS}.")]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="FILE.onnx, or FILE.py:FUNC of a function that returns a graph, a program of "
        "torch.export, or a torch.nn.Module with its inputs.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where to save a model: NAME.twm."),
]
DimOption = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=N", help="The size of a model's dimension: batch=1."),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="INPUT=AxBxC", help="The shape of a model's input: x=1x3x224x224."
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="LAYOUT",
        help="Inside of a model: nhwc (channels last), or nchw as in most models.",
    ),
]
WinogradOption = Annotated[
    bool,
    typer.Option(
        "--winograd/--no-winograd",
        help="Inside of a model: Winograd's tiles for convolutions where they are faster; they "
        "round a little more, which is reported.",
    ),
]
SpaceOption = Annotated[
    str,
    typer.Option(
        "--space",
        metavar="NAME",
        help="A space generator, or a kind of target whose rules to use: llvm, cuda, ...",
    ),
]


def work_of(name: str) -> ModuleType:
    """The module of this package that does the work of a command, so that `--help` needs none."""
    return importlib.import_module(f"tilewright.cli.{name}")
