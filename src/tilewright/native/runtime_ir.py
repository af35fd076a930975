"""All native code of the runtime as one LLVM module."""

from __future__ import annotations

from tilewright.native.allocator import workspace_ir
from tilewright.native.platform import NativePlatform
from tilewright.native.thread_pool_ir import thread_pool_ir
from tilewright.native.tile_permission_ir import tile_permission_ir
from tilewright.native.timer_ir import timer_ir

# Declared once here, since several parts of the native code use them.
_SHARED_DECLARATIONS = """
declare ptr @calloc(i64, i64)
declare i32 @madvise(ptr, i64, i32)
"""


def runtime_ir(platform: NativePlatform) -> str:
    """What compiled code calls; exported libraries carry it along."""
    parts = (thread_pool_ir(platform), workspace_ir(platform), tile_permission_ir(platform))
    return _SHARED_DECLARATIONS + "".join(parts)


def process_ir(platform: NativePlatform) -> str:
    """The same, and what our own process calls besides."""
    return runtime_ir(platform) + timer_ir(platform)
