"""Calls of the thread pool to the operating system, as LLVM IR in one variant a system.

Each variant defines ``tw_sleep(word, while)`` (sleep as long as the word holds that value),
``tw_wake(word)``, ``tw_pool_memory()`` (zeroed pages for the pool) and ``tw_cores()``. The settings
stand here too, because their defaults come from the system.
"""

from __future__ import annotations

from string import Template

from tilewright.native.platform import stub

FUTEX_SYSTEM = Template("""
declare i64 @syscall(i64, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)

define internal void @tw_sleep(ptr %word, i32 %while) noinline {
  call i64 (i64, ...) @syscall(
      i64 $FUTEX, ptr %word, i32 128, i32 %while, ptr null, ptr null, i32 0)
  ret void
}

define internal void @tw_wake(ptr %word) noinline {
  call i64 (i64, ...) @syscall(
      i64 $FUTEX, ptr %word, i32 129, i32 1, ptr null, ptr null, i32 0)
  ret void
}

define internal ptr @tw_pool_memory() noinline {
  %size.end = getelementptr %pool, ptr null, i32 1
  %size = ptrtoint ptr %size.end to i64
  %memory = call ptr @mmap(ptr null, i64 %size, i32 3, i32 34, i32 -1, i64 0)
  %failed = icmp eq ptr %memory, inttoptr (i64 -1 to ptr)
  br i1 %failed, label %none, label %some
none:
  ret ptr null
some:
  ; MADV_WIPEONFORK. Should an old kernel refuse, a child merely runs its regions serially.
  %ignored = call i32 @madvise(ptr %memory, i64 %size, i32 18)
  ret ptr %memory
}

define internal i32 @tw_cores() noinline {
entry:
  %mask = alloca [16 x i64], align 8
  store [16 x i64] zeroinitializer, ptr %mask
  %status = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %loop ]
  %address = getelementptr i64, ptr %mask, i64 %i
  %word = load i64, ptr %address
  %bits = call i64 @llvm.ctpop.i64(i64 %word)
  %sum.next = add i64 %sum, %bits
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %loop, label %done
done:
  %cores = trunc i64 %sum.next to i32
  %none = icmp slt i32 %cores, 1
  %result = select i1 %none, i32 1, i32 %cores
  ret i32 %result
}
""")

# pthread_mutex_t and pthread_cond_t are at most 64 bytes on the systems that come here.
CONDITION_SYSTEM = Template("""
@tw_mutex = internal global [128 x i8] zeroinitializer, align 64
@tw_condition = internal global [128 x i8] zeroinitializer, align 64

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @sysconf(i32)

define internal void @tw_sleep(ptr %word, i32 %while) noinline {
entry:
  %l = call i32 @pthread_mutex_lock(ptr @tw_mutex)
  br label %check
check:
  %now = load atomic i32, ptr %word acquire, align 4
  %asleep = icmp eq i32 %now, %while
  br i1 %asleep, label %wait, label %done
wait:
  %w = call i32 @pthread_cond_wait(ptr @tw_condition, ptr @tw_mutex)
  br label %check
done:
  %u = call i32 @pthread_mutex_unlock(ptr @tw_mutex)
  ret void
}

define internal void @tw_wake(ptr %word) noinline {
  %l = call i32 @pthread_mutex_lock(ptr @tw_mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @tw_condition)
  %u = call i32 @pthread_mutex_unlock(ptr @tw_mutex)
  ret void
}

define internal ptr @tw_pool_memory() noinline {
  %m = call i32 @pthread_mutex_init(ptr @tw_mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr @tw_condition, ptr null)
  %size.end = getelementptr %pool, ptr null, i32 1
  %size = ptrtoint ptr %size.end to i64
  %room = add i64 %size, 128
  %raw = call ptr @calloc(i64 1, i64 %room)
  %none = icmp eq ptr %raw, null
  %number = ptrtoint ptr %raw to i64
  %up = add i64 %number, 127
  %aligned = and i64 %up, -128
  %memory = inttoptr i64 %aligned to ptr
  %result = select i1 %none, ptr null, ptr %memory
  ret ptr %result
}

define internal i32 @tw_cores() noinline {
  %online = call i64 @sysconf(i32 $SC_NPROCESSORS)
  %none = icmp slt i64 %online, 1
  %count = select i1 %none, i64 1, i64 %online
  %result = trunc i64 %count to i32
  ret i32 %result
}
""")

# How many threads a region uses and how long an idle one spins: the same on every system.
SETTINGS = Template("""
define internal void @tw_apply_spin() noinline {
  %threads = load atomic i32, ptr @tw_threads monotonic, align 4
  %setting = load atomic i64, ptr @tw_spin_setting monotonic, align 8
  %cores = call i32 @tw_cores()
  %crowded = icmp sgt i32 %threads, %cores
  %spin = select i1 %crowded, i64 0, i64 %setting
  store atomic i64 %spin, ptr @tw_spin_ns monotonic, align 8
  ret void
}

define void @tw_set_num_threads(i32 %wanted) {
  %low = icmp slt i32 %wanted, 1
  %above = select i1 %low, i32 1, i32 %wanted
  %high = icmp sgt i32 %above, $MAX_THREADS
  %threads = select i1 %high, i32 $MAX_THREADS, i32 %above
  store atomic i32 %threads, ptr @tw_threads monotonic, align 4
  call void @tw_apply_spin()
  ret void
}

define void @tw_set_spin_ns(i64 %ns) {
  store atomic i64 %ns, ptr @tw_spin_setting monotonic, align 8
  call void @tw_apply_spin()
  ret void
}

define internal i32 @tw_default_threads() noinline {
  %text = call ptr @getenv(ptr @tw_env_threads)
  %unset = icmp eq ptr %text, null
  br i1 %unset, label %cores, label %parse
parse:
  %value = call i32 @atoi(ptr %text)
  %valid = icmp sgt i32 %value, 0
  br i1 %valid, label %use, label %cores
cores:
  %count = call i32 @tw_cores()
  br label %use
use:
  %threads = phi i32 [ %value, %parse ], [ %count, %cores ]
  call void @tw_set_num_threads(i32 %threads)
  %result = load atomic i32, ptr @tw_threads monotonic, align 4
  ret i32 %result
}

define i32 @tw_num_threads() {
  %set = load atomic i32, ptr @tw_threads monotonic, align 4
  %unset = icmp eq i32 %set, 0
  br i1 %unset, label %first, label %known
first:
  %default = call i32 @tw_default_threads()
  ret i32 %default
known:
  ret i32 %set
}
""")

# A system without threads that we know how to start: every region runs in its caller.
SERIAL_POOL = f"""
{stub("void @tw_set_num_threads(i32 %wanted)")}
{stub("void @tw_set_spin_ns(i64 %ns)")}
{stub("void @tw_expect_regions(i32 %more)")}
{stub("i32 @tw_num_threads()", "i32 1")}
define i32 @tw_parallel_launch(ptr %task, ptr %context, i64 %extent) {{
  %empty = icmp slt i64 %extent, 1
  br i1 %empty, label %nothing, label %run
nothing:
  ret i32 0
run:
  %status = call i32 %task(ptr %context, i64 0, i64 %extent)
  ret i32 %status
}}
"""
