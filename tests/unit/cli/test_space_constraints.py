"""`tilewright space why --constraints`: limits of the target, and conflicts with them."""

from __future__ import annotations

import json
from typing import Any

ASKED = (
    "space", "why", "GMM:0", "--constraints", "--space", "cuda", "--target", "cuda -arch=sm_70",
)  # fmt: skip


def test_solutions_and_limits(command: Any) -> None:
    lines = command(*ASKED).lines
    assert lines[0].endswith(" constraints, about 4.94e+07 solutions")
    assert any("max_shared_memory_per_block = 49152 of the target" in line for line in lines)
    (answer,) = json.loads(command(*ASKED, "--json").out)
    assert round(answer["solutions"]) == 49402080
    assert answer["conflict"] == []


def test_a_demand_against_a_limit(command: Any) -> None:
    threads = next(
        line.split()[0]
        for line in command(*ASKED).lines
        if "max_threads_per_block = 1024 of the target" in line
    )
    demand = f"{threads} <= 16"
    lines = command(*ASKED, "--where", demand).lines
    assert lines[0].endswith("cannot hold together, any 2 of them can:")
    origins = [line.rsplit("(from ", 1)[1] for line in lines if "(from " in line]
    assert origins[-1] == f"the user's constraint {demand!r})"
    assert "block 'Z_update' asks for at least 32 threads)" in origins


def test_mistakes(command: Any) -> None:
    err = command(*ASKED, "--where", "nobody <= 16", status=2).err
    assert err.startswith(
        "error: the constraint 'nobody <= 16' names 'nobody', which is no variable"
    )


def test_a_sketch_that_is_not_interpreted(command: Any) -> None:
    out = command("space", "why", "SFM:0", "--constraints", "--space", "llvm").out
    assert "no constraints are known: " in out
