"""Space generators by name, as `TuneContext(space_generator=...)` takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import TuneError
from tilewright.space.base import SpaceGenerator, default_makers, space_generators
from tilewright.space.defaults import FROM_TARGET, SCHEDULE_RULES
from tilewright.space.generators.post_order_apply import PostOrderApply
from tilewright.space.generators.schedule_fn import ScheduleFn
from tilewright.support.suggestions import did_you_mean


def create_space_generator(
    kind: str | Callable[..., Any] = "post-order-apply", *args: Any, **kwargs: Any
) -> SpaceGenerator:
    """A generator from its name, a kind of target ("llvm", "cuda", ...) or a schedule function.

    A schedule function comes without rules, post-processors and mutators.
    """
    if callable(kind):
        return ScheduleFn(kind, [], [], {})
    if not isinstance(kind, str):
        raise TuneError(f"a space generator is a name or a schedule function, got {kind!r}")
    if kind in SCHEDULE_RULES or kind == FROM_TARGET:
        lists = {"sch_rules": kind, "postprocs": kind, "mutator_probs": kind}
        return PostOrderApply(*args, **{**lists, **kwargs})
    if kind in space_generators:
        made: SpaceGenerator = space_generators.create(kind, *args, **kwargs)
        return made
    known = [*space_generators, FROM_TARGET, *SCHEDULE_RULES]
    raise TuneError(f"unknown space generator {kind!r}{did_you_mean(kind, known)}")


default_makers["space generator"] = create_space_generator
