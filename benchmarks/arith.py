"""What index arithmetic costs: simplifying typical index expressions, finding iterator maps.

    python benchmarks/arith.py [--json FILE]

`cold` starts from a fresh analyzer with three loop variables bound, `warm` asks an analyzer that
has seen an equal expression before. Building the expression is not counted.
"""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable
from pathlib import Path

from tilewright.arith import Analyzer, detect_iter_map, subspace_divide
from tilewright.ir import PrimExpr, Range, Var, const, minimum

i, j, k, x = Var("i"), Var("j"), Var("k"), Var("x")
DOMAINS = {var: Range(const(0), const(extent)) for var, extent in ((i, 8), (j, 4), (k, 16))}
EXPRESSIONS: dict[str, Callable[[], PrimExpr]] = {
    "i * 4 + j": lambda: i * 4 + j,
    "(i * 4 + j) // 4": lambda: (i * 4 + j) // 4,
    "((i * 4 + j) * 16 + k) // 16 % 4": lambda: ((i * 4 + j) * 16 + k) // 16 % 4,
    "(i * 4 + j) * 16 + k < 100": lambda: (i * 4 + j) * 16 + k < 100,
    "x // 16 * 16 + x % 16": lambda: x // 16 * 16 + x % 16,
    "min(x * 4 + 4, 64) - x * 4": lambda: minimum(x * 4 + 4, 64) - x * 4,
}


def _microseconds(action: Callable[[], object], number: int = 300) -> float:
    return min(timeit.repeat(action, number=number, repeat=5)) / number * 1e6


def _analyzer() -> Analyzer:
    analyzer = Analyzer()
    analyzer.bind_all(DOMAINS)
    return analyzer


def measure() -> dict[str, float]:
    """Microseconds by name."""
    setup = _microseconds(_analyzer)
    result = {"analyzer with three bindings": setup}
    for name, build in EXPRESSIONS.items():
        expr, seen = build(), _analyzer()
        result[f"cold {name}"] = _microseconds(lambda e=expr: _analyzer().simplify(e)) - setup
        building = _microseconds(build)
        warm = _microseconds(lambda a=seen, b=build: a.simplify(b()))
        result[f"warm {name}"] = max(warm - building, 0.0)
    fused = (i * 4 + j) * 16 + k
    result["detect_iter_map"] = _microseconds(lambda: detect_iter_map([fused], DOMAINS))
    result["subspace_divide"] = _microseconds(lambda: subspace_divide([fused], DOMAINS, [k]))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="What index arithmetic costs, in microseconds.")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    figures = measure()
    for name, value in figures.items():
        print(f"{name:<48} {value:8.1f} us")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
