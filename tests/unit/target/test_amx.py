"""Tiles are listed only where the CPU has them and the system hands them out."""

from __future__ import annotations

import pytest

from tilewright.target import amx, isa

TRIPLE = "x86_64-unknown-linux-gnu"
TILES = {"amx-tile", "amx-int8", "amx-bf16"}


def test_a_system_that_refuses_takes_all_extensions_of_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amx, "system_allows_tiles", lambda: False)
    assert amx.usable({"avx2", *TILES}) == {"avx2"}


def test_a_system_that_agrees_leaves_the_features_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amx, "system_allows_tiles", lambda: True)
    assert amx.usable({"avx2", *TILES}) == {"avx2", *TILES}


def test_the_system_is_not_asked_where_the_cpu_has_no_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never() -> bool:
        raise AssertionError("asked")

    monkeypatch.setattr(amx, "system_allows_tiles", never)
    assert amx.usable({"avx2"}) == {"avx2"}


def test_what_this_machine_lists_is_what_the_system_allows() -> None:
    has_tiles = "amx-tile" in isa.host().features
    assert not has_tiles or amx.system_allows_tiles()


def test_other_systems_have_no_way_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert not amx.system_allows_tiles()


@pytest.mark.parametrize(
    ("cpu", "mattr", "expected"),
    [
        ("cascadelake", ("+amx-int8",), {"amx-tile", "amx-int8"}),
        ("cascadelake", ("+amx-tile", "+amx-bf16"), {"amx-tile", "amx-bf16"}),
        ("sapphirerapids", ("-amx-tile",), set()),
        ("sapphirerapids", ("-amx-int8",), {"amx-tile", "amx-bf16"}),
        ("graniterapids", (), {*TILES, "amx-fp16"}),
    ],
)
def test_extensions_of_tiles_come_and_go_with_them(
    cpu: str, mattr: tuple[str, ...], expected: set[str]
) -> None:
    if cpu == isa.host().cpu:
        pytest.skip("this very CPU: its real features are listed, not those of its name")
    features = isa.features_of(cpu, TRIPLE, mattr)
    assert {name for name in features if name.startswith("amx-")} == expected
