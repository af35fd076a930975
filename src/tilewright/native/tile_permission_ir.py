"""`tw_request_tiles`: ask the system for the right to use tile registers, as LLVM IR.

On Linux a process has to ask once, because tiles make the state of its threads larger; the answer
holds for all its threads, also for those that run already, and for its children. Returns 0 if the
system agrees. A refusal is not remembered: it may come from a setting of the process.
"""

from __future__ import annotations

from string import Template

from tilewright.native.platform import NativePlatform, stub

_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18

_LINUX = Template("""
@tw_tiles_granted = internal global i32 0

define i32 @tw_request_tiles() {
  %known = load atomic i32, ptr @tw_tiles_granted monotonic, align 4
  %granted = icmp eq i32 %known, 1
  br i1 %granted, label %yes, label %ask
ask:
  %status = call i64 (i64, ...) @syscall(i64 $ARCH_PRCTL, i64 $REQUEST, i64 $TILE_DATA)
  %agreed = icmp eq i64 %status, 0
  br i1 %agreed, label %remember, label %no
remember:
  store atomic i32 1, ptr @tw_tiles_granted monotonic, align 4
  br label %yes
yes:
  ret i32 0
no:
  ret i32 1
}
""")


def tile_permission_ir(platform: NativePlatform) -> str:
    """The function for one system and processor family."""
    if platform.system != "linux" or platform.arch != "x86_64":
        # There are no tiles, or we do not know how to ask for them.
        return stub("i32 @tw_request_tiles()", "i32 1")
    return _LINUX.substitute(
        ARCH_PRCTL=_ARCH_PRCTL, REQUEST=_REQUEST_PERMISSION, TILE_DATA=_TILE_DATA
    )
