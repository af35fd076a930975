"""`tilewright build MODEL -o FILE`: compile with what a database knows, and save."""

from __future__ import annotations

import time
from pathlib import Path

from tilewright.cli.console import make_console
from tilewright.cli.models import SAVED, Model, ModelOptions, check_writable, load_model, save
from tilewright.cli.options import buildable_target, has_database, reading
from tilewright.model import CompiledModel, compile_model, served_by
from tilewright.report.units import seconds
from tilewright.target import Target


def run(
    text: str, options: ModelOptions, db: str | None, target_text: str, output: Path | None
) -> None:
    """Compile and save."""
    model, target = load_model(text, options), buildable_target(target_text)
    path = output or Path(f"{model.name}{SAVED}")
    check_writable(path)
    start = time.perf_counter()
    executable = compiled(model, target, db)
    took = time.perf_counter() - start
    save(executable, path)
    console = make_console()
    report = served_by(executable)
    console.print(str(report))
    size = path.stat().st_size / 1e6
    console.print(f"compiled in {seconds(took)}, saved as {path}, {size:.3g} MB")


def compiled(model: Model, target: Target, db: str | None) -> CompiledModel:
    """With the records of a database; without one, or before there is one, calculated."""
    if not has_database(db):
        return compile_model(model.graph, target, **model.options.of_compiler)
    with reading(db) as database:
        return compile_model(model.graph, target, database, **model.options.of_compiler)
