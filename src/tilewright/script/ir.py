"""The `I` of script: modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.errors import IRError
from tilewright.ir import GlobalVar as GlobalVar
from tilewright.ir.json import registered_json_type
from tilewright.script.decorators import ir_module as ir_module
from tilewright.script.exprs import Range as Range
from tilewright.script.frames import plain_value


def attribute(type_name: str, **fields: Any) -> Any:
    """An attribute value of a type that was registered with `tilewright.ir.json`."""
    kind = registered_json_type(type_name)
    if kind is None:
        raise IRError(f"no type called {type_name!r} is registered for attribute values")
    return kind(**{name: plain_value(value) for name, value in fields.items()})


def module_attrs(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of the module; stands directly in its class."""
    return attrs


def known_names() -> list[str]:
    """Every name that `I` answers to."""
    return ["GlobalVar", "Range", "attribute", "ir_module", "module_attrs"]
