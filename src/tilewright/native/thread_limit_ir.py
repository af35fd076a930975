"""A number of threads for the regions of one calling thread, whatever the others are told.

The number is kept by the thread itself: two threads of a program can each run a model with a
number of threads of their own.
"""

from __future__ import annotations

from string import Template

from tilewright.native.platform import NativePlatform, stub

# `tw_limit_threads` sets the number for the calling thread (0: that of the process) and returns the
# one before; `tw_threads_here` is what a region goes by.
_LIMIT = Template("""
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific($KEY)
declare i32 @pthread_setspecific($KEY, ptr)

define internal i32 @tw_limit_here() {
  %kept = call ptr @tw_limit_find()
  %wide = ptrtoint ptr %kept to i64
  %limit = trunc i64 %wide to i32
  ret i32 %limit
}

define internal i32 @tw_threads_here() {
  %limit = call i32 @tw_limit_here()
  %unlimited = icmp eq i32 %limit, 0
  br i1 %unlimited, label %all, label %some
some:
  ret i32 %limit
all:
  %threads = call i32 @tw_num_threads()
  ret i32 %threads
}

define i32 @tw_limit_threads(i32 %limit) {
  br label %begin
begin:
  %attempt = cmpxchg ptr @tw_limit_key_state, i32 0, i32 1 acq_rel monotonic
  %first = extractvalue { i32, i1 } %attempt, 1
  br i1 %first, label %make, label %wait
make:
  %made = call i32 @pthread_key_create(ptr @tw_limit_key, ptr null)
  %ok = icmp eq i32 %made, 0
  %after = select i1 %ok, i32 2, i32 0
  store atomic i32 %after, ptr @tw_limit_key_state release, align 4
  br i1 %ok, label %set, label %never
never:
  ret i32 0
wait:
  %state = load atomic i32, ptr @tw_limit_key_state acquire, align 4
  %ready = icmp eq i32 %state, 2
  br i1 %ready, label %set, label %begin
set:
  %before = call i32 @tw_limit_here()
  %key = load $KEY, ptr @tw_limit_key
  %wide = zext i32 %limit to i64
  %kept = inttoptr i64 %wide to ptr
  %status = call i32 @pthread_setspecific($KEY %key, ptr %kept)
  ret i32 %before
}
""")


def thread_limit_ir(platform: NativePlatform) -> str:
    """The source for ``platform``; without threads there is nothing to limit."""
    if not platform.has_threads:
        return stub("i32 @tw_limit_threads(i32 %limit)", "i32 0")
    return _LIMIT.substitute(KEY=platform.key_type) + kept_by_thread("limit", platform)


# What a thread keeps for itself under a key: null before the key is made, and at first.
_KEPT = Template("""
@tw_${NAME}_key = internal global $KEY 0
@tw_${NAME}_key_state = internal global i32 0 ; 0 unmade, 1 being made, 2 ready

define internal ptr @tw_${NAME}_find() {
  %state = load atomic i32, ptr @tw_${NAME}_key_state acquire, align 4
  %ready = icmp eq i32 %state, 2
  br i1 %ready, label %get, label %none
none:
  ret ptr null
get:
  %key = load $KEY, ptr @tw_${NAME}_key
  %kept = call ptr @pthread_getspecific($KEY %key)
  ret ptr %kept
}
""")


def kept_by_thread(name: str, platform: NativePlatform) -> str:
    """A key for pointers of threads, and the function that finds the calling thread's own."""
    return _KEPT.substitute(NAME=name, KEY=platform.key_type)
