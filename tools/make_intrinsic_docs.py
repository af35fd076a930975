"""Writes `docs/intrinsics.md`: all built-in tensor instructions, from the registry.

python tools/make_intrinsic_docs.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import tilewright.intrin  # noqa: F401 (registers them)
from tilewright.ir import Buffer
from tilewright.ir.tensor_intrin import (
    TensorIntrin,
    all_tensor_intrins,
    description_nest,
    parameters,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "intrinsics.md"
LOCAL = "_local"

INTRODUCTION = """\
# Tensor instructions

Made by `tools/make_intrinsic_docs.py`.

`sch.tensorize(loop, name)` lets an instruction carry out what is under a loop, if that is what its
description says. These are built in; `TensorIntrin.register(name, description, implementation)`
adds one. Registration refuses an implementation whose operands differ from those of the description
in shape, type or scope, and one that computes other numbers: both are run on this machine, with
random numbers and with the ends of each type.

**Features.** An instruction names the CPU features that it needs, as LLVM spells them. Rules use it
only for targets that have them, and `build` for any other target puts the description back in its
place: a schedule made for one machine runs right on every other, only slower.

**Ranges.** A few implementations are exact for some values only, because the instruction saturates
in between. They say so with `value_ranges`, and the check of their numbers stays within them.

**Scopes.** A name that ends in `_local` is the same instruction on accumulators in scope `local`:
after `cache_write(block, 0, "local")` they live in registers for as long as the sum is computed.
"""


def _needs_some(*prefixes: str) -> Callable[[TensorIntrin], bool]:
    return lambda intrin: any(feature.startswith(prefixes) for feature in intrin.features)


# Heading, what belongs under it (first match wins), and what is to be said of them all.
SECTIONS: tuple[tuple[str, Callable[[TensorIntrin], bool], str], ...] = (
    (
        "x86 sums",
        lambda intrin: intrin.name.startswith("sum_"),
        "What products of signed bytes start from, if one operand is taken as unsigned.",
    ),
    (
        "x86 dot products",
        _needs_some("avx"),
        "Each adds a few products to every lane of one register. `vpdpbusd` multiplies unsigned by "
        "signed bytes; the `_s8s8` and `_u8u8` forms shift one operand by 128 and subtract what "
        "that adds, exactly. `_exact` forms widen bytes to 16 bits first. `vdpbf16ps` takes "
        "subnormal numbers for zero and rounds each sum once; a target with "
        "`-mattr=-avx512bf16` does without it.",
    ),
    (
        "Packing",
        lambda intrin: intrin.name.startswith("pack_"),
        "They bring the right operand of a product into the order that the dot products take: "
        "vector loads, one shuffle, one vector store. Plain IR, so they run everywhere.",
    ),
    (
        "AMX",
        _needs_some("amx"),
        "Results live in tile registers, scope `amx.tmm`: fill them, multiply into them, store "
        "them.",
    ),
    (
        "Arm",
        _needs_some("neon", "dotprod"),
        "Each adds four products of bytes to each of four sums.",
    ),
    (
        "GPUs",
        lambda intrin: not intrin.features,
        "Fragments of a warp (`wmma_*`), PTX `ldmatrix` and `mma` (`mma*`), and `dp4a`.",
    ),
)


def render() -> str:
    """The page."""
    intrins = [_get(name) for name in all_tensor_intrins()]
    known = {intrin.name for intrin in intrins}
    shown = [i for i in intrins if i.name.removesuffix(LOCAL) not in known - {i.name}]
    groups: dict[str, list[TensorIntrin]] = {title: [] for title, _, _ in SECTIONS}
    for intrin in shown:
        groups[next(title for title, fits, _ in SECTIONS if fits(intrin))].append(intrin)
    sections = [_section(title, remark, groups[title], known) for title, _, remark in SECTIONS]
    return "\n".join([INTRODUCTION, *sections])


def _get(name: str) -> TensorIntrin:
    found = TensorIntrin.get(name)
    assert found is not None
    return found


def _section(title: str, remark: str, intrins: list[TensorIntrin], known: set[str]) -> str:
    columns = ["name", "operands", "computes"]
    with_needs = any(intrin.features for intrin in intrins)
    columns += ["needs", "exact for"] if with_needs else []
    rows = [columns, ["---"] * len(columns)]
    for intrin in intrins:
        row = [_names(intrin, known), _operands(intrin), f"`{_computed(intrin)}`"]
        rows.append([*row, _needs(intrin), _range(intrin)] if with_needs else row)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"## {title}\n\n{remark}\n\n{table}\n"


def _names(intrin: TensorIntrin, known: set[str]) -> str:
    also = f", `{LOCAL}`" if intrin.name + LOCAL in known else ""
    return f"`{intrin.name}`{also}"


def _operands(intrin: TensorIntrin) -> str:
    return ", ".join(_operand(buffer) for buffer in parameters(intrin.desc))


def _operand(buffer: Buffer) -> str:
    shape = ", ".join(map(str, buffer.shape))
    scope = "" if buffer.scope == "global" else f" in `{buffer.scope}`"
    return f"{buffer.name}: {buffer.dtype!s}[{shape}]{scope}"


def _computed(intrin: TensorIntrin) -> str:
    """The statement inside the loops of the description."""
    text = str(description_nest(intrin.desc)[1].block.body)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return lines[-1].strip()


def _needs(intrin: TensorIntrin) -> str:
    return ", ".join(f"`{feature}`" for feature in sorted(intrin.features))


def _range(intrin: TensorIntrin) -> str:
    ranges = (f"{low:g} <= {name} <= {high:g}" for name, (low, high) in intrin.value_ranges.items())
    rounds = any(buffer.dtype.is_float for buffer in parameters(intrin.desc))
    return "; ".join(ranges) or ("all values, up to rounding" if rounds else "all values")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    options = parser.parse_args(arguments)
    text = render()
    if options.check:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not current:
            print(f"{PAGE.name} is not what the registry says")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
