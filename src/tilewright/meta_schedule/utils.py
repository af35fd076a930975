"""Helpers that code for MetaSchedule imports from here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.ir import IRModule, structural_hash
from tilewright.meta_schedule.derived_object import derived_object as derived_object
from tilewright.runtime import get_global_func
from tilewright.tune.callbacks import remove_build_dir as remove_build_dir
from tilewright.tune.context import thread_count

# Found by name without being in the registry, which holds what users registered.
_OWN = {"meta_schedule.remove_build_dir": remove_build_dir}


def cpu_count(logical: bool = True) -> int:
    """How many cores this process may use."""
    return thread_count("logical" if logical else "physical")


def fork_seed(seed: int | None, n: int) -> list[int]:
    """Seeds for n tasks from one; different ones at each call without a seed."""
    return [int(each) for each in np.random.RandomState(seed).randint(1, 2**30, n)]


def shash2hex(mod: IRModule) -> str:
    """The structural hash of a module as a text."""
    return f"{structural_hash(mod):#018x}"


def get_global_func_with_default_on_worker(
    name: str | Callable[..., object] | None, default: Callable[..., object]
) -> Callable[..., object]:
    """The function that a hook means: a registered one by name, itself, or the default for none."""
    if name is None:
        return default
    if not isinstance(name, str):
        return name
    return _OWN.get(name) or get_global_func(name)
