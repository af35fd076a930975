"""Helpers that code for MetaSchedule imports from here."""

from __future__ import annotations

import numpy as np

from tilewright.ir import IRModule, structural_hash
from tilewright.meta_schedule.derived_object import derived_object as derived_object
from tilewright.tune.context import thread_count


def cpu_count(logical: bool = True) -> int:
    """How many cores this process may use."""
    return thread_count("logical" if logical else "physical")


def fork_seed(seed: int | None, n: int) -> list[int]:
    """Seeds for n tasks from one; different ones at each call without a seed."""
    return [int(each) for each in np.random.RandomState(seed).randint(1, 2**30, n)]


def shash2hex(mod: IRModule) -> str:
    """The structural hash of a module as a text."""
    return f"{structural_hash(mod):#018x}"
