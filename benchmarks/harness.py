"""What every benchmark shares: rows, interleaved timing, the table, the result file.

A row compares one figure of ours with a rival's, both taken in turn in one run; `ratio` is ours
divided by theirs, on times, so below 1 means that we are faster.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SETTLE_SECONDS = 0.05  # OpenMP threads spin for up to some 15 ms
TVM_PYTHON = ROOT / ".venv-tvm" / "bin" / "python"


@dataclass(frozen=True)
class Row:
    """One comparison."""

    name: str
    ours: float
    rival: float | None
    rival_name: str
    unit: str
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over theirs."""
        return None if not self.rival else self.ours / self.rival

    def as_json(self) -> dict[str, Any]:
        """The row as the result file holds it."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass
class Report:
    """Rows as they come in, and what they were measured on."""

    title: str
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep a row and show it at once."""
        self.rows.append(row)
        print(_line(row), flush=True)

    def skip(self, name: str, reason: str) -> None:
        """Say why a row is missing."""
        self.skipped.append(f"{name}: {reason}")
        print(f"{name:<24} skipped: {reason}", flush=True)

    def keep_others(self, path: Path) -> None:
        """Keep the rows of a result file that were not measured this time."""
        known = json.loads(path.read_text())["rows"] if path.exists() else []
        measured = {(row.name, row.rival_name) for row in self.rows}
        for row in known:
            del row["ratio"]
            if (row["name"], row["rival_name"]) not in measured:
                self.rows.append(Row(**row))
        self.rows.sort(key=lambda row: (row.name, row.rival_name))

    def save(self, path: Path) -> None:
        """Write everything to a file."""
        path.write_text(
            json.dumps(
                {
                    "title": self.title,
                    "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                    "commit": commit(),
                    "machine": machine(),
                    "versions": versions(),
                    "rows": [row.as_json() for row in self.rows],
                    "skipped": self.skipped,
                },
                indent=1,
            )
            + "\n"
        )


HEADER = f"{'row':<24} {'ours':>12} {'rival':>12}  {'unit':<5} {'ratio':>6}  against"


def _line(row: Row) -> str:
    rival = "-" if row.rival is None else f"{row.rival:.2f}"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    note = f"  ({row.note})" if row.note else ""
    figures = f"{row.ours:>12.2f} {rival:>12}  {row.unit:<5} {ratio:>6}"
    return f"{row.name:<24} {figures}  {row.rival_name}{note}"


def commit() -> str:
    """The commit that is measured, in words of git."""
    found = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """The machine in words."""
    from tilewright.target import Target

    cpu = Target("llvm").cpu
    return {
        "cpu": cpu.name,
        "cores": cpu.physical_cores,
        "vector_bits": cpu.vector_bits,
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Versions of what took part."""
    found = {"python": platform.python_version()}
    for package in ("tilewright", "llvmlite", "numpy", "torch", "onnxruntime"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def interleaved(
    candidates: Sequence[Callable[[], float]], rounds: int, settle: float = SETTLE_SECONDS
) -> list[float]:
    """The best result of each candidate, measured in turn so that noise hits all alike.

    Before each measurement the threads of the one before get `settle` seconds to stop spinning; a
    core that slept is slow for some milliseconds, so what starts no threads needs none.
    """
    best = [float("inf")] * len(candidates)
    for _ in range(rounds):
        for position, measure in enumerate(candidates):
            time.sleep(settle)
            best[position] = min(best[position], measure())
    return best


def parse_arguments(description: str, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="run only these rows")
    return parser.parse_args(argv)


class Rival:
    """Another program that answers one line of JSON for each line it is sent."""

    def __init__(
        self, python: Path, script: Path, *args: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [str(python), str(script), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environ,
        )

    def ask(self, question: str) -> Any:
        """Send a line and read the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the rival stopped with status {self._process.wait()}")
        return json.loads(answer)

    def close(self) -> None:
        """End the other program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def finish(report: Report, options: argparse.Namespace) -> None:
    """Write the result file if one was asked for."""
    if options.json is not None:
        report.save(options.json)
        print(f"written to {options.json}")
    sys.stdout.flush()
