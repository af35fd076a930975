"""Damage for stored data: what bad disks, cut-off writes and ill will do to files."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

# Values for the places of others: wrong types, extremes, text that is none, terminal codes.
_STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**200, -0.5, 1e300, "", "x", "\x1b[31m", "\udcff", "inf",
    [], [[]], {}, {"node": 0}, {"map": [[1, 2]]}, {"float": "nan"}, {"dtype": "int0"},
)  # fmt: skip


def damaged_texts(text: bytes, rng: random.Random, number: int) -> Iterator[bytes]:
    """Copies of a text with one piece changed, lost or doubled."""
    for _ in range(number):
        yield rng.choice(_TEXT_DAMAGE)(bytearray(text), rng)


def _flip(text: bytearray, rng: random.Random) -> bytes:
    text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    return bytes(text)


def _overwrite(text: bytearray, rng: random.Random) -> bytes:
    at = rng.randrange(len(text))
    text[at : at + rng.randrange(1, 9)] = rng.randbytes(rng.randrange(9))
    return bytes(text)


def _cut(text: bytearray, rng: random.Random) -> bytes:
    return bytes(text[: rng.randrange(len(text))])


def _double(text: bytearray, rng: random.Random) -> bytes:
    at = rng.randrange(len(text))
    piece = text[at : at + rng.randrange(1, 40)]
    return bytes(text[:at] + piece + text[at:])


def _zero(text: bytearray, rng: random.Random) -> bytes:
    at = rng.randrange(len(text))
    length = min(rng.randrange(1, 64), len(text) - at)
    text[at : at + length] = bytes(length)
    return bytes(text)


_TEXT_DAMAGE: tuple[Callable[[bytearray, random.Random], bytes], ...] = (
    _flip,
    _flip,
    _overwrite,
    _cut,
    _double,
    _zero,
)


def damaged_documents(document: Any, rng: random.Random, number: int) -> Iterator[Any]:
    """Copies of a JSON document with one value changed, lost, doubled or moved."""
    for _ in range(number):
        changed = copy.deepcopy(document)
        containers = [each for each in _containers(changed) if each]
        if not containers:
            yield strange_value(rng)
            continue
        _damage_container(rng.choice(containers), containers, rng)
        yield changed


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, dict)):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)


def _damage_container(container: Any, others: list[Any], rng: random.Random) -> None:
    key = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
    match rng.randrange(4):
        case 0:
            del container[key]
        case 1:
            other = rng.choice(others)
            value = rng.choice(list(other.values()) if isinstance(other, dict) else other)
            container[key] = copy.deepcopy(value)
        case 2 if isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        case _:
            container[key] = strange_value(rng)


def strange_value(rng: random.Random) -> Any:
    """A value that hardly any place is made for."""
    return copy.deepcopy(rng.choice(_STRANGE))
