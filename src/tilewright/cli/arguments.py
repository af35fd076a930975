"""Options and arguments that several commands have; no more than typer is needed for them."""

from __future__ import annotations

from pathlib import Path
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
ProgramArgument = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="FILE.py:FUNC or WORKLOAD[:INDEX], such as GMM:0.")
]
SpaceOption = Annotated[
    str,
    typer.Option(
        "--space",
        metavar="NAME",
        help="A space generator, or a kind of target whose rules to use: llvm, cuda, ...",
    ),
]
