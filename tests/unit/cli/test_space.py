"""`tilewright space`: sketches with their decisions, and why rules did what they did."""

from __future__ import annotations

import functools
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.decisions import count_tiles
from tilewright.cli.watched_rules import NOTHING_TO_DO, make_context, watch
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, space_generators
from tilewright.space.generators import PostOrderApply
from tilewright.target import Target
from tilewright.testing.te_workload import create_te_workload

TARGET = "llvm -mcpu=skylake-avx512 -num-cores=4"


def test_sketches(command: Any) -> None:
    lines = command("space", "show", "GMM:0", "--target", TARGET, "--space", "llvm").lines
    assert lines[0] == "sketch 0: 5 decisions, 4.0e+05 candidates"
    assert (
        lines[1] == "        1 choice  v6, v7, v8, v9 = sch.sample_perfect_tile(loop=l2, n=4, "
        "max_innermost_factor=64)"
    )
    assert lines[-1] == "--sketch N prints the script of one"
    assert lines[-2].startswith("GMM:0: 3 sketches, ")


def test_one_sketch_with_its_script(command: Any) -> None:
    out = command("space", "show", "GMM:0", "--target", TARGET, "--sketch", "1").out
    assert out.startswith("sketch 1: ")
    assert "def main(X: T.Buffer((1, 128, 128)" in out
    assert command("space", "show", "GMM:0", "--sketch", "99", status=2).err.startswith(
        "error: there is no sketch 99; there are sketches 0 to "
    )


def test_sketches_as_json(command: Any) -> None:
    sketches = json.loads(command("space", "show", "SFM:0", "--json").out)
    for number, sketch in enumerate(sketches):
        assert sketch["sketch"] == number
        choices = [decision["choices"] for decision in sketch["decisions"]]
        assert sketch["candidates"] == math.prod(choices)
        assert sketch["trace"].startswith("# from tilewright import tir")


def test_why(command: Any) -> None:
    lines = command("space", "why", "GMM:0", "Z", "--target", TARGET, "--space", "llvm").lines
    assert lines[0] == "block Z, PostOrderApply:"
    verdicts = dict(line.split(maxsplit=1) for line in lines[2:-1])
    assert verdicts == {
        "ApplyCustomRule": "not applied: it names no rule of its own",
        "InlineConstantScalars": "not applied: it is not a constant scalar",
        "AutoInline": "not applied: no other block reads its result",
        "AddRFactor": "not applied: its results alone give enough work to run in parallel",
        "MultiLevelTiling": "applied: 3 sketches",
        "ParallelizeVectorizeUnroll": "not applied: it annotates root blocks only",
        "RandomComputeLocation": "not applied: another rule has taken care of it already",
    }


def test_why_on_gpus(command: Any) -> None:
    flags = ("--target", "nvidia/nvidia-h200", "--json")
    found = json.loads(command("space", "why", "GMM:0", "Z", *flags).out)
    verdicts = {entry["rule"]: entry["verdict"] for entry in found}
    assert verdicts["WarpGroupTiling"] == "not applied: its types are not those of tensor cores"
    assert verdicts["ThreadTiling"] == "applied: 8 sketches"
    found = json.loads(command("space", "why", "NRM:0", *flags).out)
    asked = [entry for entry in found if entry["rule"] == "ThreadTiling"]
    verdicts = {entry["block"]: entry["verdict"] for entry in asked}
    assert verdicts.pop("root") == "not applied: it is the root block"
    assert set(verdicts.values()) == {"not applied: it does not multiply numbers of 32 or 64 bits"}


def test_why_of_blocks_that_vanish(command: Any) -> None:
    found = json.loads(
        command("space", "why", "CBR:0", "--target", TARGET, "--space", "llvm", "--json").out
    )
    verdicts = {(entry["block"], entry["rule"]): entry["verdict"] for entry in found}
    assert verdicts["bias_add", "AutoInline"] == "applied"
    assert verdicts["bias_add", "MultiLevelTiling"] == (
        "was not asked: AutoInline has replaced the block"
    )
    assert verdicts["PaddedInput", "AutoInline"] == (
        "not applied: it holds a condition (T.if_then_else), which is expensive to recompute"
    )


def test_why_asks_for_a_block_that_exists(command: Any) -> None:
    assert command("space", "why", "GMM:0", "z2", status=2).err.startswith(
        "error: GMM:0 has no block 'z2'"
    )


def test_programs_that_cannot_be_tuned(command: Any) -> None:
    Path("empty.py").write_text(
        "from tilewright.script import tir as T\n"
        "@T.prim_func\ndef f(a: T.Buffer((8,), 'float32')):\n    a[0] = T.float32(1)\n"
    )
    assert command("space", "show", "empty.py:f", status=2).err.startswith(
        "error: function 'f' has no blocks, so there is nothing to schedule"
    )


def test_spaces_without_rules(command: Any) -> None:
    assert "unknown space generator 'lvm'; did you mean 'llvm'?" in (
        command("space", "why", "GMM:0", "--space", "lvm", status=2).err
    )


# --- reasons ------------------------------------------------------------------------------------


class Silent(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        return [sch]


class Talkative(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        return NotApplied(sch, f"{sch.get_sref(block).name} is not to my taste")


class Failing(ScheduleRule):
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        raise ValueError("a bug")


@pytest.mark.parametrize(
    ("rule", "reason"), [(Silent(), NOTHING_TO_DO), (Talkative(), "Z is not to my taste")]
)
def test_rules_of_others(rule: ScheduleRule, reason: str) -> None:
    context = make_context(create_te_workload("GMM", 0), Target(TARGET), "llvm")
    assert context.space_generator is not None
    context.space_generator.sch_rules = [rule]
    (log,) = watch(context)
    assert [visit.detail for visit in log.visits if visit.block == "Z"] == [reason]


def test_a_rule_with_a_reason_is_shown(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    space = functools.partial(PostOrderApply, sch_rules=[Talkative()])
    monkeypatch.setitem(space_generators._members, "talkative", space)
    lines = command("space", "why", "GMM:0", "Z", "--target", TARGET, "--space", "talkative").lines
    assert lines[2].split(maxsplit=1) == ["Talkative", "not applied: Z is not to my taste"]


def test_rules_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    context = make_context(create_te_workload("GMM", 0), Target(TARGET), "llvm")
    assert context.space_generator is not None
    context.space_generator.sch_rules = [Failing()]
    (log,) = watch(context)
    assert {visit.detail for visit in log.visits} == {"failed: ValueError: a bug"}
    assert not caplog.records


@pytest.mark.parametrize("name", ["C2D", "NRM", "SFM", "CBR", "TBG", "DEP"])
@pytest.mark.parametrize("space", ["kernels", "llvm"])
def test_every_refusal_of_our_rules_has_a_reason(name: str, space: str) -> None:
    context = make_context(create_te_workload(name, 0), Target(TARGET), space)
    for log in watch(context):
        unknown = {(v.rule, v.block) for v in log.visits if v.detail == NOTHING_TO_DO}
        assert unknown == set()


# --- counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("extent", [1, 7, 12, 36, 128])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("limit", [-1, 1, 4])
def test_tiles_are_counted(extent: int, parts: int, limit: int) -> None:
    sizes = [size for size in range(1, extent + 1) if extent % size == 0]
    found = [
        tile
        for tile in itertools.product(sizes, repeat=parts)
        if math.prod(tile) == extent and (limit == -1 or tile[-1] <= limit)
    ]
    assert count_tiles(extent, parts, limit) == len(found)
