"""Numbers of a GPU that rules and post-processors read from the target."""

from __future__ import annotations

from tilewright.errors import TargetError
from tilewright.target import Target

MAX_THREADS = "max_threads_per_block"
WARP_SIZE = "thread_warp_size"
MAX_SHARED_MEMORY = "max_shared_memory_per_block"


def gpu_number(target: Target | None, name: str) -> int | None:
    """A number among the attributes of a target; None if it does not say."""
    value = None if target is None else target.attrs.get(name)
    return value if isinstance(value, int) else None


def required_gpu_number(target: Target | None, name: str, member: str) -> int:
    """The same where `member` of a search space cannot do without."""
    value = gpu_number(target, name)
    if value is None:
        what = "there is no target" if target is None else f"target {str(target)!r} has none"
        raise TargetError(
            f"{member} needs the target attribute {name!r}, but {what}; use a tag such as "
            f"'nvidia/nvidia-a100', or add -{name}=<number>"
        )
    return value
