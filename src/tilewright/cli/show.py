"""`tilewright show`: one record from trace to machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.syntax import Syntax

from tilewright.cli.console import make_console, print_json
from tilewright.cli.options import database_url, reading
from tilewright.cli.programs import load_program
from tilewright.database import Database
from tilewright.database.record_ids import SHORTEST, find_records, looks_like_id, record_id
from tilewright.database.similarity import describe
from tilewright.driver import compile_only
from tilewright.errors import DatabaseError
from tilewright.ir import IRModule
from tilewright.records import TuningRecord
from tilewright.report.collect import collect
from tilewright.report.packing import packed_before, packing_note
from tilewright.report.roofline import flop_of
from tilewright.report.units import gflops, seconds, short_target
from tilewright.support.text import printable
from tilewright.target import Target
from tilewright.tune.context import normalize_mod

BEST = "best"
DEFAULT_VIEWS = ("trace", "script")


@dataclass(frozen=True)
class RecordView:
    """One way to look at a record."""

    title: str
    lexer: str
    text: Callable[[TuningRecord, IRModule, Target], str]


VIEWS = {
    "trace": RecordView("trace", "python", lambda record, _, __: str(record.trace)),
    "script": RecordView("script", "python", lambda _, mod, __: mod.script()),
    "llvm": RecordView("LLVM IR", "llvm", lambda _, mod, target: _source(mod, target, "ll")),
    "asm": RecordView("assembly", "gas", lambda _, mod, target: _source(mod, target, "asm")),
}


def _source(mod: IRModule, target: Target, kind: str) -> str:
    return compile_only(mod, target).get_source(kind)


def run(text: str, db: str | None, target: str, views: Sequence[str], *, as_json: bool) -> None:
    """Print a record."""
    chosen = Target(target)
    with reading(db) as database:
        record = find(database, database_url(db), text, chosen)
    mod = record.as_measure_candidate().sch.mod
    compiled_for = record.target or chosen
    texts = {name: VIEWS[name].text(record, mod, compiled_for) for name in views or DEFAULT_VIEWS}
    if as_json:
        facts = {**_facts(record), "packed": packed_before(mod), **texts}
        print_json(facts)
        return
    console = make_console()
    note = packing_note(packed_before(mod))
    console.print(f"{_headline(record)}{note and f'; {note}'}")
    for name, shown in texts.items():
        console.print(f"\n# --- {VIEWS[name].title}")
        _print_code(console, shown, VIEWS[name].lexer)


def _print_code(console: Console, text: str, lexer: str) -> None:
    if console.is_terminal and not console.no_color:
        console.print(
            Syntax(printable(text, "\n"), lexer, theme="ansi_dark", background_color="default")
        )
    else:
        console.print(text)


def _headline(record: TuningRecord) -> str:
    name, target = describe(record.workload.mod), short_target(record.target)
    flop = flop_of(record.workload.mod)
    speed = f"{seconds(record.mean_secs)}, {gflops(flop, record.mean_secs)} GFLOPS"
    result = speed if record.is_valid else f"failed: {record.failure or 'no running time'}"
    extra = record.extra
    place = "".join(f", {key} {extra[key]}" for key in ("run", "trial", "seed") if key in extra)
    return f"record {record_id(record)}: {name} on {target}: {result}{place}"


def _facts(record: TuningRecord) -> dict[str, object]:
    return {
        "record": record_id(record),
        "task": describe(record.workload.mod),
        "target": None if record.target is None else str(record.target),
        "mean_secs": record.mean_secs if record.is_valid else None,
        "run_secs": record.plain_secs,
        "failure": record.failure,
        "error": record.error_msg,
        **{key: record.extra[key] for key in ("run", "trial", "seed") if key in record.extra},
    }


# --- which record -------------------------------------------------------------------------------


def find(database: Database, url: str, text: str, target: Target) -> TuningRecord:
    """The record that a text means: `best`, the start of an id, or a program's best."""
    if text == BEST:
        return _only_best(database, url)
    if looks_like_id(text):
        found = find_records(database, text)
        if len(found) == 1:
            return found[0][1]
        if found:
            names = ", ".join(name for name, _ in found[:4])
            raise DatabaseError(f"{len(found)} records start with {text}: {names}, ...")
        raise DatabaseError(
            f"no record in {url} starts with {text}; `tilewright db ls` shows the best ones"
        )
    return best_of(database, load_program(text).mod, target)


def best_of(database: Database, mod: IRModule, target: Target) -> TuningRecord:
    """The best record of a program, or an error that says why there is none."""
    module = normalize_mod(mod)
    record = database.query_tuning_record(module, target, "main")
    if record is None:
        raise DatabaseError(database.explain_miss(module, target))
    return record


def _only_best(database: Database, url: str) -> TuningRecord:
    """The best record, if there is one task only."""
    found = [(task.title, task.best) for task in collect(database)]
    best = [record for _, record in found if record is not None]
    if len(best) == 1:
        return best[0]
    if not best:
        raise DatabaseError(f"no record in {url} is valid")
    names = ", ".join(title for title, _ in found)
    raise DatabaseError(
        f"{url} has {len(found)} tasks ({names}); name a program, or a record by {SHORTEST} or "
        "more characters of its id"
    )
