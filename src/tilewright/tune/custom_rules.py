"""Schedule rules that a block names: global functions serve, as in TVM."""

from __future__ import annotations

from tilewright.runtime import get_global_func
from tilewright.space.tvm.custom_rules import add_custom_rule_lookup


def connect_global_functions() -> None:
    """Let `schedule_rule` annotations find `meta_schedule.<key>.<name>` global functions."""
    add_custom_rule_lookup(lambda name: get_global_func(name, allow_missing=True))
