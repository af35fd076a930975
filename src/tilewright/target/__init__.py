"""Targets of compilation: `Target`, its kinds and tags, and the abilities of this machine."""

from tilewright.target.cpu import CpuDescription
from tilewright.target.intrin_rules import register_intrin_rule, remove_intrin_rule
from tilewright.target.kinds import TargetKind, get_kind, list_kinds
from tilewright.target.tags import list_tags
from tilewright.target.target import Target

__all__ = [
    "CpuDescription",
    "Target",
    "TargetKind",
    "get_kind",
    "list_kinds",
    "list_tags",
    "register_intrin_rule",
    "remove_intrin_rule",
]
