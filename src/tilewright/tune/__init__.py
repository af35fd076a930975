"""The tuner: the one place that wires search, measuring and the database together."""

from tilewright.runtime import get_global_func
from tilewright.space.tvm.apply_custom_rule import add_custom_rule_lookup
from tilewright.tune.api import *  # noqa: F403 - its `__all__`
from tilewright.tune.context import TuneContext as TuneContext
from tilewright.tune.fallback import default_schedule as default_schedule
from tilewright.tune.profiler import Profiler as Profiler

# Schedule rules that a block names may be global functions, as in TVM.
add_custom_rule_lookup(lambda name: get_global_func(name, allow_missing=True))
