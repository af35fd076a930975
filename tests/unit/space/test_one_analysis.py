"""Rules for CPUs and tensor instructions ask `nest/` about loops and accesses, and only `nest/`.

They take no expression apart themselves: neither by walking through it, nor by looking at the first
element, the extent or the domain that a node has, nor by comparing with quotients and remainders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright.space

SPACE = Path(tilewright.space.__path__[0])
FOLDERS = ("cpu", "tensor")
WALKS = frozenset(
    {
        "FloorDiv", "FloorMod", "Interner", "Visitor", "affine_of", "children", "expr_deep_equal",
        "free_vars", "has_load", "nodes_of", "post_order_visit", "pre_order_visit",
        "structural_equal", "used_vars", "uses_var", "walk",
    }
)  # fmt: skip
PARTS = frozenset({"dom", "extent", "min"})  # of ranges, loops and iterators


def own_analyses(source: str) -> Iterator[str]:
    """Lines on which a module takes an expression, a region or a loop apart."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if (
                name in WALKS
            ):
                yield f"{node.lineno}: {name}"
            case ast.Attribute(attr=name) if name in PARTS:
                yield f"{node.lineno}: .{name}"
            case ast.MatchClass(cls=ast.Attribute(attr=name) | ast.Name(id=name), kwd_attrs=fields):
                if name in ("BufferLoad", "BufferRegion", "For") and fields:
                    yield f"{node.lineno}: the parts of a {name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_rule_has_an_analysis_of_its_own(folder: str) -> None:
    paths = sorted((SPACE / folder).glob("*.py"))
    assert len(paths) > 3
    found = [
        f"{folder}/{path.name}:{line}"
        for path in paths
        for line in own_analyses(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "indices = [axis.min for axis in region.region]",
        "extent = loop.extent.value",
        "loads = ir.nodes_of(block.body, ir.BufferLoad)",
        "from tilewright.ir import uses_var",
        "case = isinstance(index, ir.FloorMod)",
        "match value:\n    case ir.BufferLoad(indices=indices):\n        pass",
    ],
)
def test_what_counts_as_an_analysis(source: str) -> None:
    assert len(list(own_analyses(source))) == 1


def test_what_does_not() -> None:
    source = "match body:\n    case ir.BufferStore(value=ir.BufferLoad()):\n        pass"
    assert list(own_analyses(f"{source}\nleast = min(sizes)\nnest.extents[0]")) == []
