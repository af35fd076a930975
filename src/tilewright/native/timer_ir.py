"""The loops that run kernels in a row, and the eviction of memory from caches, as LLVM IR.

It reads the clock of the thread pool, so there is none where the pool has no threads.
"""

from __future__ import annotations

from tilewright.native.platform import NativePlatform

# `tw_repeat` runs a packed function `number` times and writes down the nanoseconds; its result is
# the status of the run that failed, or 0.
_REPEAT_IR = """
define i32 @tw_repeat(ptr %function, ptr %slots, i64 %number, ptr %elapsed) {
entry:
  %start = call i64 @tw_now_ns()
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %status = call i32 %function(ptr %slots)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %more, label %done
more:
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %number
  br i1 %again, label %loop, label %done
done:
  %end = call i64 @tw_now_ns()
  %time = sub i64 %end, %start
  store i64 %time, ptr %elapsed
  ret i32 %status
}
"""

# `tw_run_steps` runs packed functions one after the other, each with slots of its own, and notes
# the time before the first and after each if `times` is not null; its result is the number of the
# one that failed, or `count`, with the status in `status`.
_STEPS_IR = """
define i64 @tw_run_steps(ptr %steps, i64 %count, ptr %times, ptr %status) {
entry:
  %timed = icmp ne ptr %times, null
  store i32 0, ptr %status
  call void @tw_expect_regions(i32 1)
  br i1 %timed, label %start, label %loop
start:
  %begin = call i64 @tw_now_ns()
  store i64 %begin, ptr %times
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ 0, %start ], [ %next, %more ]
  %going = icmp slt i64 %i, %count
  br i1 %going, label %run, label %done
run:
  %place = getelementptr { ptr, ptr }, ptr %steps, i64 %i
  %function = load ptr, ptr %place
  %second = getelementptr { ptr, ptr }, ptr %steps, i64 %i, i32 1
  %slots = load ptr, ptr %second
  %failed = call i32 %function(ptr %slots)
  br i1 %timed, label %note, label %check
note:
  %now = call i64 @tw_now_ns()
  %number = add i64 %i, 1
  %time = getelementptr i64, ptr %times, i64 %number
  store i64 %now, ptr %time
  br label %check
check:
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %more, label %stop
more:
  %next = add i64 %i, 1
  br label %loop
stop:
  store i32 %failed, ptr %status
  br label %done
done:
  call void @tw_expect_regions(i32 -1)
  ret i64 %i
}
"""

_EVICT_IR = """
define void @tw_evict(ptr %data, i64 %bytes) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = getelementptr i8, ptr %data, i64 %i
  {touch}
  %next = add i64 %i, 64
  %again = icmp slt i64 %next, %bytes
  br i1 %again, label %loop, label %done
done:
{fence}  ret void
}}
"""
# On x86 single lines can be evicted; elsewhere we read so much that nothing else stays cached.
_EVICT_LINES_IR = """
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()
""" + _EVICT_IR.format(
    touch="call void @llvm.x86.sse2.clflush(ptr %place)",
    fence="  call void @llvm.x86.sse2.mfence()\n",
)
_READ_THROUGH_IR = _EVICT_IR.format(touch="%value = load volatile i8, ptr %place", fence="")


def evicts_lines(platform: NativePlatform) -> bool:
    """Whether single cache lines can be evicted."""
    return platform.arch == "x86_64"


def timer_ir(platform: NativePlatform) -> str:
    """`tw_evict` and, where there is a clock, `tw_repeat` and `tw_run_steps`."""
    evict = _EVICT_LINES_IR if evicts_lines(platform) else _READ_THROUGH_IR
    return evict + (_REPEAT_IR + _STEPS_IR if platform.has_threads else "")
