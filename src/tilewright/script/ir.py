"""The `I` of script: modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import GlobalVar as GlobalVar
from tilewright.script.decorators import ir_module as ir_module
from tilewright.script.exprs import Range as Range


def module_attrs(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of the module; stands directly in its class."""
    return attrs
