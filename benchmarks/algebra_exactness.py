"""How exact the algebra is: `python benchmarks/algebra_exactness.py [--count N] [names...]`.

All workloads on all targets and spaces; each sketch is compared on so many different candidates
with what their replays say. Every sketch is written to a file when it is done, and left out when
the command is run again (`--again` compares all): it can be stopped at any time, or stop by itself
after some sketches (`--sketches`). Prints a table, then all that is not covered or not the same,
with reasons.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import RESULTS, commit, machine, versions

import tilewright.intrin  # noqa: F401  (registers tensor instructions)
from tilewright.target import Target
from tilewright.testing.algebra_exactness import (
    EXACTNESS_TARGETS,
    EXACTNESS_WORKLOADS,
    SketchExactness,
    compared_sketches,
    sketch_exactness,
    table,
)

_PLACE = ("target", "workload", "space", "sketch")


class ExactnessFile:
    """Results of sketches, on disk after each of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        known = json.loads(path.read_text())["sketches"] if path.exists() else []
        self._rows = {tuple(row[key] for key in _PLACE): row for row in known}

    def has(self, place: tuple[Any, ...], count: int) -> bool:
        """True for a sketch that was compared on so many candidates, and is covered by now."""
        row = self._rows.get(place)
        if row is None or row["asked"] < count:
            return False
        return not row["reasons"] or row["commit"] == commit()

    def add(self, place: tuple[Any, ...], row: dict[str, Any]) -> None:
        """Keep the result of a sketch."""
        self._rows[place] = {**dict(zip(_PLACE, place, strict=True)), **row}
        written = {
            "title": "the algebra of sketches against replays",
            "date": _now(),
            "machine": machine(),
            "versions": versions(),
            "sketches": [self._rows[key] for key in sorted(self._rows)],
        }
        text = json.dumps(written, indent=1) + "\n"
        partial = self._path.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(self._path)

    def sketches(self, target: str, workload: str, space: str) -> list[SketchExactness]:
        """What is known of the sketches of a space."""
        wanted = (target, workload, space)
        rows = [self._rows[key] for key in sorted(self._rows) if key[:3] == wanted]
        return [_from_json(row) for row in rows]


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds")


def _from_json(row: dict[str, Any]) -> SketchExactness:
    kept = {key: row[key] for key in SketchExactness.__dataclass_fields__}
    for key in ("reasons", "differing"):
        kept[key] = Counter(kept[key])
    return SketchExactness(**kept)


def main() -> None:
    """Compare what was asked for and is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="candidates of each sketch")
    parser.add_argument("--target", choices=EXACTNESS_TARGETS, action="append")
    parser.add_argument("--again", action="store_true", help="compare what is in the file, too")
    parser.add_argument("--sketches", type=int, metavar="N", help="stop after so many of them")
    parser.add_argument(
        "--json", type=Path, default=RESULTS / "algebra_exactness.json", metavar="FILE"
    )
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    results = ExactnessFile(given.json)
    rows = []
    turns = itertools.islice(itertools.count(), given.sketches)
    for label, name, space in _spaces(given):
        _compare(results, (label, name, space), given, turns)
        rows.append((name, label, space, results.sketches(label, name, space)))
        print(table(rows[-1:]).splitlines()[2], flush=True)
    print(table(rows))


def _spaces(given: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    for label in given.target or EXACTNESS_TARGETS:
        kind = EXACTNESS_TARGETS[label]
        for name in given.names or kind.workloads:
            for space in kind.spaces:
                yield label, name, space


def _compare(
    results: ExactnessFile,
    where: tuple[str, str, str],
    given: argparse.Namespace,
    turns: Iterator[int],
) -> None:
    """Compare the sketches of a space that are not known yet, while there are turns left."""
    label, name, space = where
    target = Target(EXACTNESS_TARGETS[label].target)
    for number, sketch in enumerate(compared_sketches(EXACTNESS_WORKLOADS[name](), target, space)):
        place = (*where, number)
        if results.has(place, given.count) and not given.again:
            continue
        if next(turns, None) is None:
            return
        start = time.process_time()
        found = vars(sketch_exactness(sketch, target, given.count))
        seconds = round(time.process_time() - start, 1)
        about = {"asked": given.count, "date": _now(), "commit": commit(), "seconds": seconds}
        results.add(place, {**found, **about})


if __name__ == "__main__":
    main()
