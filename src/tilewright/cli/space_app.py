"""`tilewright space`: the commands; their work is in `space.py`."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.arguments import (
    JsonOption,
    ProgramArgument,
    SpaceOption,
    TargetOption,
    argument,
    option,
    work_of,
)

app = typer.Typer(no_args_is_help=True, help="Inspect the space that a search chooses from.")


@app.command()
def show(
    program: ProgramArgument,
    target: TargetOption = "llvm",
    space: SpaceOption = "tilewright",
    sketch: Annotated[
        int | None, option("--sketch N", "Only this sketch, with its script.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the sketches of a program with their open decisions."""
    work_of("space").show(program, target, space, sketch, as_json=json)


@app.command()
def why(
    program: ProgramArgument,
    block: Annotated[str | None, argument("[BLOCK]", "Only this block.")] = None,
    target: TargetOption = "llvm",
    space: SpaceOption = "tilewright",
    heron: Annotated[
        str | None,
        option(
            "--heron PLATFORM",
            "PROGRAM is a configuration of Heron's: say how many solutions its cases have on "
            "a platform, or which constraints conflict.",
        ),
    ] = None,
    constraints: Annotated[
        bool,
        option(
            "--constraints",
            "Say of each sketch how many candidates the limits of the target leave, or which "
            "constraints conflict.",
        ),
    ] = False,
    where: Annotated[
        list[str] | None,
        option(
            "--where DEMAND",
            "With --constraints: a demand on a variable, such as 'x4 <= 64'; repeatable.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain for each block which rules applied, and why the others did not."""
    if constraints:
        demands = tuple(where or ())
        work_of("space_constraints").constraints(program, target, space, demands, as_json=json)
        return
    if heron is not None:
        work_of("heron").why(program, heron, as_json=json)
        return
    work_of("space").why(program, block, target, space, as_json=json)
