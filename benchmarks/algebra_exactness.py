"""How exact the algebra is: `python benchmarks/algebra_exactness.py [--count N] [names...]`.

All workloads on all targets and spaces; each sketch is compared on so many random candidates with
what their replays say. Prints a table, then all that is not covered or not the same, with reasons.
"""

from __future__ import annotations

import argparse
import logging
import time

import tilewright.intrin  # noqa: F401  (registers tensor instructions)
from tilewright.target import Target
from tilewright.testing.algebra_exactness import (
    EXACTNESS_TARGETS,
    EXACTNESS_WORKLOADS,
    exactness_of,
    table,
)


def main() -> None:
    """Compare what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="candidates of each sketch")
    parser.add_argument("--target", choices=EXACTNESS_TARGETS, action="append")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = []
    for label in given.target or EXACTNESS_TARGETS:
        kind = EXACTNESS_TARGETS[label]
        for name in given.names or kind.workloads:
            for space in kind.spaces:
                start = time.perf_counter()
                func = EXACTNESS_WORKLOADS[name]()
                found = list(exactness_of(func, Target(kind.target), space, given.count))
                rows.append((name, label, space, found))
                print(table(rows[-1:]).splitlines()[2], f"{time.perf_counter() - start:.0f} s")
    print(table(rows))


if __name__ == "__main__":
    main()
