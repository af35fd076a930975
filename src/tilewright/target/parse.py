"""Reading a target from what a user may write: a string, a tag or a dictionary.

The string form is `kind -name=value --name value -flag`, with lists separated by commas. Reading
settles kinds, names and types only; what the CPU behind it can do is asked when it is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.errors import TargetError
from tilewright.target.kinds import AttrValue, TargetKind, get_kind
from tilewright.target.tags import get_tag

# Entries of a description that are fields of their own, not attributes of the kind.
_FIELDS = ("kind", "keys", "tag", "host")

_EXPECTED = {
    "int": "a whole number of at least 1",
    "bool": "true or false",
    "str": "a text",
    "list": "a list of texts",
}


@dataclass(frozen=True, slots=True)
class Description:
    """A target, read and checked, before its host is made."""

    kind: TargetKind
    keys: tuple[str, ...]
    tag: str
    attrs: tuple[tuple[str, AttrValue], ...]
    host: object


def from_string(text: str) -> Description:
    """Read `"llvm -mcpu=haswell -num-cores=4"` or a tag."""
    words = shlex.split(text)
    if not words:
        raise TargetError("a target cannot be empty; write for example 'llvm'")
    head, *options = words
    if "/" in head:
        if options:
            raise TargetError(
                f"the tag {head!r} takes no options; write the target as a dictionary"
            )
        return from_mapping({"tag": head, **get_tag(head)})
    return from_mapping({"kind": head, **_options(get_kind(head), options)})


def from_mapping(config: Mapping[str, object]) -> Description:
    """Read `{"kind": "llvm", "num-cores": 4}` or `{"tag": ..., more entries}`."""
    tag = config.get("tag") or ""
    if not isinstance(tag, str):
        raise TargetError(f"the tag of a target must be a text, got {tag!r}")
    if "kind" not in config:
        if not tag:
            raise TargetError(f"a target needs an entry 'kind' or 'tag', got {dict(config)!r}")
        config = {**get_tag(tag), **config}
    kind_name = config["kind"]
    if not isinstance(kind_name, str):
        raise TargetError(f"the kind of a target must be a text, got {kind_name!r}")
    kind = get_kind(kind_name)
    given = {
        name: _check(kind, name, value) for name, value in config.items() if name not in _FIELDS
    }
    detected = {} if "arch" in given else kind.detected()
    attrs = tuple(sorted({**kind.defaults, **detected, **given}.items()))
    return Description(kind, _keys(kind, config), tag, attrs, config.get("host"))


def _options(kind: TargetKind, words: list[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or not word.strip("-"):
            raise TargetError(
                f"expected an option such as -num-cores=4 in the target, got {word!r}"
            )
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        if name in options:
            raise TargetError(f"the target gives {name!r} twice")
        options[name] = _from_text(kind, name, value)
    return options


def _from_text(kind: TargetKind, name: str, text: str) -> object:
    """Options arrive as text; turn them into what a dictionary would hold."""
    if name in ("keys", "tag", "host"):
        return text.split(",") if name == "keys" else text
    match kind.attr_type(name):
        case "int":
            return int(text) if text.isdecimal() else text
        case "bool":
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
        case "list":
            return text.split(",")
        case "str":
            return text


def _check(kind: TargetKind, name: str, value: object) -> AttrValue:
    expected = kind.attr_type(name)
    match expected, value:
        case "bool", bool():
            return value
        case "int", bool():
            pass
        case "int", int() if value >= 1:
            return value
        case "str", str():
            return value
        case "list", list() | tuple() if all(isinstance(item, str) for item in value):
            return tuple(value)
    raise TargetError(
        f"attribute {name!r} of target kind {kind.name!r} must be {_EXPECTED[expected]},"
        f" got {value!r}"
    )


def _keys(kind: TargetKind, config: Mapping[str, object]) -> tuple[str, ...]:
    keys = config.get("keys")
    if not keys:
        return kind.default_keys
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise TargetError(f"the keys of a target must be a list of texts, got {keys!r}")
    missing = [key for key in kind.default_keys if key not in keys]
    return (*keys, *missing)
