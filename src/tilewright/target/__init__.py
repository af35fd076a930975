"""Targets of compilation: `Target`, its kinds and tags, and the abilities of this machine."""

from tilewright.target.cpu import CpuDescription as CpuDescription, host_topology as host_topology
from tilewright.target.intrin_rules import (
    register_intrin_rule as register_intrin_rule,
    remove_intrin_rule as remove_intrin_rule,
)
from tilewright.target.kinds import (
    TargetKind as TargetKind,
    get_kind as get_kind,
    list_kinds as list_kinds,
)
from tilewright.target.tags import list_tags as list_tags
from tilewright.target.target import Target as Target
