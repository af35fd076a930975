"""The commands of `tilewright`, one function each; a command's work lives in its own module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import arguments, dataset_app, db_app, model_app, rpc_app, share_app, space_app
from tilewright.cli.arguments import argument, option
from tilewright.cli.early_interrupt import early_interrupt
from tilewright.cli.group import CommandGroup
from tilewright.config import no_color
from tilewright.version import __version__

if TYPE_CHECKING:
    from tilewright.cli.models import ModelOptions

app = typer.Typer(
    name="tilewright",
    help="A tensor-program compiler and auto-scheduler.",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None if no_color() else "rich",
)
app.add_typer(space_app.app, name="space")
app.add_typer(db_app.app, name="db")
app.add_typer(dataset_app.app, name="dataset")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        option("--version", "Print the version and stop.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """A tensor-program compiler and auto-scheduler."""


@app.command()
@arguments.with_model_options
def tune(
    programs: Annotated[
        list[str],
        argument(
            "PROGRAM...", f"{arguments.PROGRAM_FORMS}; or a model: FILE.onnx or FILE.py:FUNC."
        ),
    ],
    budget: Annotated[
        str | None, option("--budget TIME", "How long to search: 90s, 10m, 1h30m.")
    ] = None,
    trials: Annotated[
        int | None, option("--trials N", "How many candidates to measure in all.")
    ] = None,
    effort: Annotated[
        str,
        option(
            "--effort EFFORT",
            "Without --budget or --trials: none (choose a schedule without a search), fast "
            "(64 trials a task), normal (256, or fewer if nothing improves), max (2048).",
        ),
    ] = "normal",
    db: arguments.DatabaseOption = None,
    seed: Annotated[
        int | None,
        option(
            "--seed N",
            "Make a search repeatable: the first round exactly, later rounds as far as the "
            "measured times agree. Random by default.",
        ),
    ] = None,
    target: arguments.TargetOption = "llvm",
    profile: Annotated[bool, option("--profile", "Print at the end where the time went.")] = False,
    json: Annotated[bool, option("--json", "Print one JSON object for each event.")] = False,
    space: Annotated[
        str,
        option(
            "--space NAME",
            "The search space: tilewright (everything), or one set of rules, such as llvm "
            "or vnni (MetaSchedule's) or kernels (ours).",
        ),
    ] = "tilewright",
    keep_going: Annotated[
        bool,
        option(
            "--keep-going",
            "Report an exception in your own code (rules, cost models, ...) once and go on "
            "without that code, instead of stopping.",
        ),
    ] = False,
    bound: Annotated[
        bool,
        option(
            "--bound",
            "Tune for weights that are packed once, by Module.bind: packing is not counted.",
        ),
    ] = False,
    output: arguments.OutputOption = None,
    cost_model: arguments.CostModelOption = None,
    on: arguments.ClusterOption = None,
    *,
    reading: ModelOptions,
) -> None:
    """Search for fast schedules; the same command again continues where the last one stopped.

    A model is checked against the original and saved.
    """
    with early_interrupt() as pending:
        work = arguments.work_of("tune")
        options = work.TuneCommand(
            programs, budget, trials, effort, db, seed, target, json, profile, space, keep_going,
            bound, pending, reading, output, cost_model, on,
        )  # fmt: skip
        status = work.run(options)
    raise typer.Exit(status)


@app.command()
def show(
    record: Annotated[
        str,
        argument(
            "RECORD",
            "The id of a record (its start is enough), a program (for its best record), or "
            "`best` if the database has one task.",
        ),
    ],
    db: arguments.DatabaseOption = None,
    target: arguments.TargetOption = "llvm",
    trace: Annotated[bool, option("--trace", "The steps of the schedule.")] = False,
    script: Annotated[bool, option("--script", "The scheduled program.")] = False,
    llvm: Annotated[bool, option("--llvm", "The optimised LLVM IR.")] = False,
    asm: Annotated[bool, option("--asm", "The machine code.")] = False,
    json: arguments.JsonOption = False,
) -> None:
    """Show a record: trace and script, or what the options ask for."""
    wanted = {"trace": trace, "script": script, "llvm": llvm, "asm": asm}
    views = [name for name, is_wanted in wanted.items() if is_wanted]
    arguments.work_of("show").run(record, db, target, views, as_json=json)


@app.command()
@arguments.with_model_options
def bench(
    program: Annotated[
        str,
        argument(
            "PROGRAM",
            f"{arguments.PROGRAM_FORMS}; or a model: FILE.onnx, FILE.twm or FILE.py:FUNC.",
        ),
    ],
    db: arguments.DatabaseOption = None,
    target: arguments.TargetOption = "llvm",
    against: Annotated[
        str | None,
        option(
            "--against RIVAL",
            "FILE.py:FUNC, a Python function that takes all arrays and returns the output; "
            "for a model a list of onnxruntime, torch, openvino.",
        ),
    ] = None,
    json: arguments.JsonOption = False,
    *,
    reading: ModelOptions,
) -> None:
    """Time the naive program, our schedules without and with a search, and PyTorch, in turn.

    A model: as it is calculated, as it was tuned, and its rivals.
    """
    work = arguments.work_of("bench")
    command = work.BenchCommand(program, db, target, against, reading)
    raise typer.Exit(work.run(command, as_json=json))


@app.command()
def report(
    destination: Annotated[Path, option("--output -o FILE", "Where to write the report.")] = Path(
        "report.html"
    ),
    db: arguments.DatabaseOption = None,
) -> None:
    """Write a report on a database: one HTML file that needs no network."""
    arguments.work_of("report").run(destination, db)


@app.command()
def serve(
    db: arguments.DatabaseOption = None,
    host: Annotated[
        str, option("--host HOST", "Where to listen; others need --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, option("--port PORT", "The port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8765,
    token: Annotated[
        str | None,
        option("--token SECRET", "What visitors must enter; @FILE reads it from a file."),
    ] = None,
) -> None:
    """Show a database in a browser, live while a tuner adds to it."""
    arguments.work_of("serve").run(db, host, port, token)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run(
    given: Annotated[
        list[str],
        argument(
            "SCRIPT [ARGUMENT]",
            "A script, or -m and the name of a module such as pytest; its arguments.",
        ),
    ],
) -> None:
    """Run a script written for TVM 0.14 unchanged: `import tvm` imports Tilewright."""
    arguments.work_of("run").run(given)


@app.command()
def heron(
    platform: Annotated[str, option("--platform -p NAME", "dlboost, tensorcore or vta.")],
    config: Annotated[Path, option("--config -c FILE", "A configuration file of Heron.")],
    trials: Annotated[
        int | None, option("--trials N", "How many candidates, instead of max_trials.")
    ] = None,
    seed: Annotated[int, option("--seed N", "The seed of the search.")] = 0,
    measure: Annotated[bool, typer.Option(help="Measure, or write the space and stop.")] = True,
    show_space: Annotated[
        bool, option("--show-space", "Print knobs, candidates and variables.")
    ] = False,
    tuned: Annotated[
        bool, option("--tuned", "Measure the best of an earlier run, search nothing.")
    ] = False,
) -> None:
    """Tune operators as Heron does: constraints from rules, searched by CGA or a rival."""
    work = arguments.work_of("heron")
    command = work.HeronCommand(platform, config, seed, trials, measure, show_space, tuned)
    raise typer.Exit(work.run(command))


@app.command()
def doctor(
    json: Annotated[bool, option("--json", "Print the findings as JSON.")] = False,
) -> None:
    """Check what works on this machine, and say how to fix what does not."""
    raise typer.Exit(arguments.work_of("doctor").run(as_json=json))


model_app.add_to(app)
share_app.add_to(app)
rpc_app.add_to(app)


def main() -> None:
    """Entry point."""
    app()
