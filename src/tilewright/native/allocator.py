"""Workspace memory for generated code: ``tw_workspace_alloc`` and ``tw_workspace_free``.

A kernel that packs its operands wants the same few buffers at every call. Asking the system each
time would mean a page fault for every 4 kB, so each thread keeps its last blocks. The cache is
bounded in blocks and bytes, and goes away with its thread.

A block starts with a 64-byte header that holds its capacity; the caller gets the address behind
the header. Large blocks stand on huge pages where the system has them.
"""

from __future__ import annotations

from string import Template

from tilewright.native.platform import NativePlatform, stub
from tilewright.native.thread_limit_ir import kept_by_thread

CACHED_BLOCKS = 8
CACHED_BYTES = 128 << 20

_HUGE_PAGE = 2 << 20
# A cached block may serve a request of at least half its size, small ones any.
_SMALL = 64 << 10

_COMMON = Template("""
%cache = type { i64, i32, i32, [$CACHED_BLOCKS x ptr] } ; bytes, next victim, unused, blocks

declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)

; The calling thread's cache, made when missing; null when it cannot be made right now.
define internal ptr @tw_cache_make() noinline {
  %state = load atomic i32, ptr @tw_cache_key_state acquire, align 4
  %ready = icmp eq i32 %state, 2
  br i1 %ready, label %make, label %claim
claim:
  %attempt = cmpxchg ptr @tw_cache_key_state, i32 0, i32 1 acq_rel monotonic
  %first = extractvalue { i32, i1 } %attempt, 1
  br i1 %first, label %key, label %none
key:
  %status = call i32 @pthread_key_create(ptr @tw_cache_key, ptr @tw_cache_drop)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %publish, label %none
publish:
  store atomic i32 2, ptr @tw_cache_key_state release, align 4
  br label %make
make:
  %size.end = getelementptr %cache, ptr null, i32 1
  %size = ptrtoint ptr %size.end to i64
  %cache = call ptr @calloc(i64 1, i64 %size)
  %the.key = load $KEY, ptr @tw_cache_key
  %set = call i32 @pthread_setspecific($KEY %the.key, ptr %cache)
  ret ptr %cache
none:
  ret ptr null
}

define internal void @tw_cache_flush(ptr %cache) noinline {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %slot = getelementptr %cache, ptr %cache, i32 0, i32 3, i32 %i
  %block = load ptr, ptr %slot
  call void @free(ptr %block)
  store ptr null, ptr %slot
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, $CACHED_BLOCKS
  br i1 %more, label %loop, label %done
done:
  store i64 0, ptr %cache
  ret void
}

define internal void @tw_cache_drop(ptr %cache) noinline {
  call void @tw_cache_flush(ptr %cache)
  call void @free(ptr %cache)
  ret void
}

define internal ptr @tw_cache_take(ptr %cache, i64 %bytes) {
entry:
  %twice = shl i64 %bytes, 1
  %tiny = icmp ult i64 %twice, $SMALL
  %most = select i1 %tiny, i64 $SMALL, i64 %twice
  br label %look
look:
  %i = phi i32 [ 0, %entry ], [ %i.next, %next ]
  %slot = getelementptr %cache, ptr %cache, i32 0, i32 3, i32 %i
  %block = load ptr, ptr %slot
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %next, label %measure
measure:
  %capacity = load i64, ptr %block
  %enough = icmp uge i64 %capacity, %bytes
  %thrifty = icmp ule i64 %capacity, %most
  %fits = and i1 %enough, %thrifty
  br i1 %fits, label %take, label %next
take:
  store ptr null, ptr %slot
  %held = load i64, ptr %cache
  %left = sub i64 %held, %capacity
  store i64 %left, ptr %cache
  ret ptr %block
next:
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, $CACHED_BLOCKS
  br i1 %more, label %look, label %none
none:
  ret ptr null
}

define internal ptr @tw_block_new(i64 %bytes) noinline {
  %place = alloca ptr, align 8
  %up = add i64 %bytes, 63
  %capacity = and i64 %up, -64
  %overflow = icmp ult i64 %capacity, %bytes
  %large = icmp uge i64 %capacity, $HUGE_PAGE
  %alignment = select i1 %large, i64 $HUGE_PAGE, i64 64
  %total = add i64 %capacity, 64
  %wraps = icmp ult i64 %total, 64
  %impossible = or i1 %overflow, %wraps
  br i1 %impossible, label %none, label %ask
none:
  ret ptr null
ask:
  %status = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %total)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %none, label %mark
mark:
  %block = load ptr, ptr %place
  br i1 %large, label %advise, label %ready
advise:
  call void @tw_advise(ptr %block, i64 %total)
  br label %ready
ready:
  store i64 %capacity, ptr %block
  ret ptr %block
}

; Null only when the system has no memory left, or for a negative size.
define ptr @tw_workspace_alloc(i64 %bytes) {
  %bad = icmp slt i64 %bytes, 0
  br i1 %bad, label %none, label %search
none:
  ret ptr null
search:
  %cache = call ptr @tw_cache_find()
  %no.cache = icmp eq ptr %cache, null
  br i1 %no.cache, label %new, label %reuse
reuse:
  %cached = call ptr @tw_cache_take(ptr %cache, i64 %bytes)
  %miss = icmp eq ptr %cached, null
  br i1 %miss, label %new, label %give
new:
  %fresh = call ptr @tw_block_new(i64 %bytes)
  %refused = icmp eq ptr %fresh, null
  br i1 %refused, label %none, label %give
give:
  %block = phi ptr [ %cached, %reuse ], [ %fresh, %new ]
  %memory = getelementptr i8, ptr %block, i64 64
  ret ptr %memory
}

define void @tw_workspace_free(ptr %memory) {
  %nothing = icmp eq ptr %memory, null
  br i1 %nothing, label %done, label %find
done:
  ret void
find:
  %block = getelementptr i8, ptr %memory, i64 -64
  %capacity = load i64, ptr %block
  %too.big = icmp ugt i64 %capacity, $CACHED_BYTES
  br i1 %too.big, label %release, label %lookup
release:
  call void @free(ptr %block)
  ret void
lookup:
  %known = call ptr @tw_cache_find()
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %make, label %weigh
make:
  %made = call ptr @tw_cache_make()
  %no.cache = icmp eq ptr %made, null
  br i1 %no.cache, label %release, label %weigh
weigh:
  %cache = phi ptr [ %known, %lookup ], [ %made, %make ]
  %held = load i64, ptr %cache
  %sum = add i64 %held, %capacity
  %overfull = icmp ugt i64 %sum, $CACHED_BYTES
  br i1 %overfull, label %flush, label %keep
flush:
  call void @tw_cache_flush(ptr %cache)
  br label %keep
keep:
  call void @tw_cache_put(ptr %cache, ptr %block, i64 %capacity)
  ret void
}

define internal void @tw_cache_put(ptr %cache, ptr %block, i64 %capacity) {
entry:
  br label %look
look:
  %i = phi i32 [ 0, %entry ], [ %i.next, %next ]
  %slot = getelementptr %cache, ptr %cache, i32 0, i32 3, i32 %i
  %present = load ptr, ptr %slot
  %empty = icmp eq ptr %present, null
  br i1 %empty, label %put, label %next
next:
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, $CACHED_BLOCKS
  br i1 %more, label %look, label %evict
evict:
  %victim.at = getelementptr %cache, ptr %cache, i32 0, i32 1
  %victim = load i32, ptr %victim.at
  %after = add i32 %victim, 1
  %wrapped = urem i32 %after, $CACHED_BLOCKS
  store i32 %wrapped, ptr %victim.at
  %victim.slot = getelementptr %cache, ptr %cache, i32 0, i32 3, i32 %victim
  %old = load ptr, ptr %victim.slot
  %old.capacity = load i64, ptr %old
  %held.before = load i64, ptr %cache
  %held.less = sub i64 %held.before, %old.capacity
  store i64 %held.less, ptr %cache
  call void @free(ptr %old)
  br label %put
put:
  %free.slot = phi ptr [ %slot, %look ], [ %victim.slot, %evict ]
  store ptr %block, ptr %free.slot
  %held = load i64, ptr %cache
  %sum = add i64 %held, %capacity
  store i64 %sum, ptr %cache
  ret void
}
""")

_HUGE_PAGES = """
define internal void @tw_advise(ptr %block, i64 %bytes) noinline {
  %ignored = call i32 @madvise(ptr %block, i64 %bytes, i32 14) ; MADV_HUGEPAGE
  ret void
}
"""

# Without threads that we know, every block goes straight back to the system.
_UNCACHED = """
declare ptr @_aligned_malloc(i64, i64)
declare void @_aligned_free(ptr)

define ptr @tw_workspace_alloc(i64 %bytes) {
  %memory = call ptr @_aligned_malloc(i64 %bytes, i64 64)
  ret ptr %memory
}

define void @tw_workspace_free(ptr %memory) {
  call void @_aligned_free(ptr %memory)
  ret void
}
"""


def workspace_ir(platform: NativePlatform) -> str:
    """The allocator's source for ``platform``."""
    if not platform.has_threads:
        return _UNCACHED
    no_advice = stub("internal void @tw_advise(ptr %block, i64 %bytes)")
    advise = _HUGE_PAGES if platform.system == "linux" else no_advice
    return (
        kept_by_thread("cache", platform)
        + advise
        + _COMMON.substitute(
            CACHED_BLOCKS=CACHED_BLOCKS,
            CACHED_BYTES=CACHED_BYTES,
            HUGE_PAGE=_HUGE_PAGE,
            SMALL=_SMALL,
            KEY=platform.key_type,
        )
    )
