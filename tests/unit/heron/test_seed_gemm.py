"""The 64 x 64 x 64 product has the names, candidates, relations and variables of the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.heron.operators import OperatorCase, operation_of
from tilewright.heron.platforms import heron_platforms
from tilewright.heron.rules.base import heron_rules
from tilewright.heron.space import HeronSpace, space_of

SEED: dict[str, Any] = json.loads(
    Path(__file__).with_name("seed_gemm_64.json").read_text(encoding="utf-8")
)


def space(platform: str, dtype: str) -> HeronSpace:
    case = OperatorCase("gemm", (64, 64, 64), dtype, dtype)
    return space_of(operation_of(case), heron_platforms.create(platform))


@pytest.fixture(scope="module")
def dlboost() -> HeronSpace:
    """Without data types of the instruction the document's template has no Tensorize, too."""
    return space("dlboost", "float32")


def test_knobs_and_candidates(dlboost: HeronSpace) -> None:
    seed = SEED["dlboost"]
    assert dlboost.knob_names == seed["knob_names"]
    assert {name: list(v) for name, v in dlboost.candidates.items()} == seed["candidates"]


def test_relations_of_axes(dlboost: HeronSpace) -> None:
    seed = SEED["dlboost"]
    assert dlboost.axis_parents == seed["axis_parents"] | {
        name: parents for name, parents in dlboost.axis_parents.items() if ".fused" in name
    }
    assert set(dlboost.axis_parents) == set(seed["axis_parents"])
    assert dlboost.axis_brothers == seed["axis_brother"]
    assert dlboost.axis_lengths == seed["axis_ori_lenth"]


def test_variables_with_their_bounds(dlboost: HeronSpace) -> None:
    found = {name: list(bounds) for name, bounds in dlboost.variables().items()}
    assert found == SEED["dlboost"]["variables"]
    assert list(found) == list(SEED["dlboost"]["variables"])


def test_positions_and_structure(dlboost: HeronSpace) -> None:
    seed = SEED["dlboost"]
    assert {k: list(v) for k, v in dlboost.short_positions().items()} == seed["compute_poses"]
    assert dlboost.position_names() == seed["compute_pos_names"]
    tiles = {name: stage.tiles for name, stage in dlboost.stages.items() if stage.tiles}
    assert json.loads(json.dumps(tiles)) == seed["stile_structures"]
    tags = {
        f"L#ST:{name},AX:{axis}": tag
        for name, stage in dlboost.stages.items()
        for axis, tag in stage.tags.items()
    }
    assert tags == seed["axis_annotations"]


def test_the_schedule_as_text(dlboost: HeronSpace) -> None:
    """All steps of the document, in its order; ours adds the pragma and leaves out remarks."""
    steps = [line for line in SEED["dlboost"]["schedule"] if "s[" in line or "s.cache" in line]
    ours = [line for line in dlboost.script({}).splitlines() if "s[" in line or "s.cache" in line]
    assert [line for line in ours if ".pragma(" not in line] == steps


def test_tensor_cores_have_the_stages_and_positions() -> None:
    seed, found = SEED["tensorcore"], space("tensorcore", "float16")
    assert {k: list(v) for k, v in found.short_positions().items()} == seed["compute_poses"]
    assert set(found.stages) == set(seed["stages"])
    shared = {name for name, stage in found.stages.items() if stage.scope == "shared"}
    assert shared == set(seed["shared_load_stages"])
    variables = {name: list(bounds) for name, bounds in found.variables().items()}
    assert {name: variables[name] for name in seed["variables"]} == seed["variables"]
    assert list(variables)[: len(seed["variables"])] == list(seed["variables"])


def test_the_seven_rules_have_their_names() -> None:
    paper = {
        "Always-Inline",
        "Multi-level-Tiling",
        "Add-Cache-Stage",
        "User-Defined-Rule",
        "Tensorize",
        "Add Multi-level SPM",
        "Add Multi-Scope SPM",
    }
    assert paper <= set(heron_rules)
    for name in paper:
        assert heron_rules.get(name).name == name  # type: ignore[attr-defined]
