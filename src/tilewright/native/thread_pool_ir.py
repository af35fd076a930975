"""The thread pool as LLVM IR: compiled once a process, or linked into an exported library.

Each worker has one mailbox, a cache line of its own (two, because processors fetch lines in
pairs). Its ``state`` word is everything there is to synchronise:

    IDLE      -> JOB       the caller posts a chunk
    JOB       -> RUNNING   the worker takes it
    JOB       -> IDLE      the caller takes it back, because it finished its own chunk first
    RUNNING   -> IDLE      the worker is done
    RUNNING   -> WAITED    the caller sleeps until the worker is done; the worker must wake it
    IDLE      -> SLEEPING  the worker found nothing to do for the spin time
    SLEEPING  -> JOB       as above, and the caller must wake the worker

Taking a chunk back means that a region never waits for a thread that has not even started: not
for one that sleeps, not for one that lost its core to another process, and not for one that is
gone after fork(). ``busy`` admits one region at a time; a nested or concurrent one runs serially.

The mailboxes live in pages that the kernel zeroes in a forked child (where it can), so that the
child finds an empty pool and starts its own threads.
"""

from __future__ import annotations

from string import Template

from tilewright.native import thread_pool_system_ir as system
from tilewright.native.platform import NativePlatform
from tilewright.native.thread_limit_ir import thread_limit_ir

MAX_THREADS = 256
DEFAULT_SPIN_NS = 200_000

_PATIENCE = {
    # A spin batch is about a microsecond; the clock is read between batches.
    "SPIN_BATCH": 64,
    # From this age on a spinning thread offers its core to others between batches.
    "YIELD_AFTER_NS": 20_000,
    # An offer that was taken for this long means that the core is contended: sleep.
    "CONTENDED_NS": 30_000,
    # A thread that does not offer its core was kept from it so long: somebody else runs there.
    "LOST_NS": 300_000,
    # The longest time for which regions that were announced are waited for.
    "EXPECTING_NS": 20_000_000,
}

_TYPES = Template("""
%worker = type { i32, i32, ptr, ptr, i64, i64, [88 x i8] } ; state result task context begin end
%pool = type { i32, i32, i32, [116 x i8], [$MAX_THREADS x %worker] } ; busy spawned spawn_failed

@tw_pool = internal global ptr null
@tw_creating = internal global i32 0
@tw_threads = internal global i32 0
@tw_spin_setting = internal global i64 $DEFAULT_SPIN_NS
@tw_spin_ns = internal global i64 0
@tw_expecting = internal global i32 0 ; callers that are going to start one region after another
@tw_env_threads = internal constant [23 x i8] c"TILEWRIGHT_NUM_THREADS\\00"

declare void $RELAX_TYPE
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare ptr @getenv(ptr)
declare i32 @atoi(ptr)
""")

_WAITING = Template("""
define internal i64 @tw_now_ns() noinline {
  %time = alloca [2 x i64], align 8
  %ignored = call i32 @clock_gettime(i32 $CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.at = getelementptr i64, ptr %time, i64 1
  %fraction = load i64, ptr %fraction.at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %fraction
  ret i64 %now
}

; Between calls with 1 and with -1, workers that have nothing to do offer their cores to nobody, and
; do not sleep, since the next region follows soon; unless somebody else was given the core.
define void @tw_expect_regions(i32 %more) {
  %before = atomicrmw add ptr @tw_expecting, i32 %more monotonic
  ret void
}

; Spin while `state` is `present`: true once it changed, false when spinning stops making sense.
define internal i1 @tw_spin_while(ptr %state, i32 %present) noinline {
entry:
  br label %batch
batch:
  %started = phi i64 [ 0, %entry ], [ %since, %next ]
  %last = phi i64 [ 0, %entry ], [ %seen, %next ]
  br label %poll
poll:
  %i = phi i32 [ 0, %batch ], [ %i.next, %again ]
  %now.state = load atomic i32, ptr %state acquire, align 4
  %changed = icmp ne i32 %now.state, %present
  br i1 %changed, label %yes, label %again
again:
  call void $RELAX
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, $SPIN_BATCH
  br i1 %more, label %poll, label %clock
clock:
  %now = call i64 @tw_now_ns()
  %first = icmp eq i64 %started, 0
  %since = select i1 %first, i64 %now, i64 %started
  %age = sub i64 %now, %since
  %limit = load atomic i64, ptr @tw_spin_ns monotonic, align 8
  %expected = load atomic i32, ptr @tw_expecting monotonic, align 4
  %is.expected = icmp sgt i32 %expected, 0
  %spins = icmp sgt i64 %limit, 0
  %idle = icmp eq i32 %present, 0
  %patient = icmp slt i64 %age, $EXPECTING_NS
  %may.keep = and i1 %idle, %spins
  %does.keep = and i1 %is.expected, %patient
  %keeps = and i1 %does.keep, %may.keep
  br i1 %keeps, label %keep, label %ration
keep:
  %before = select i1 %first, i64 %now, i64 %last
  %gap = sub i64 %now, %before
  %lost = icmp sgt i64 %gap, $LOST_NS
  br i1 %lost, label %no, label %next
ration:
  %old = icmp sge i64 %age, %limit
  br i1 %old, label %no, label %patience
patience:
  %young = icmp slt i64 %age, $YIELD_AFTER_NS
  br i1 %young, label %next, label %offer
offer:
  %ignored = call i32 @sched_yield()
  %back = call i64 @tw_now_ns()
  %away = sub i64 %back, %now
  %contended = icmp sgt i64 %away, $CONTENDED_NS
  br i1 %contended, label %no, label %next
next:
  %seen = phi i64 [ %now, %keep ], [ %now, %patience ], [ %back, %offer ]
  br label %batch
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @tw_wait_done(ptr %state) noinline {
entry:
  %spun = call i1 @tw_spin_while(ptr %state, i32 2)
  br i1 %spun, label %done, label %announce
announce:
  %attempt = cmpxchg ptr %state, i32 2, i32 3 acq_rel acquire
  %asleep = extractvalue { i32, i1 } %attempt, 1
  br i1 %asleep, label %sleep, label %done
sleep:
  call void @tw_sleep(ptr %state, i32 3)
  %now = load atomic i32, ptr %state acquire, align 4
  %still = icmp eq i32 %now, 3
  br i1 %still, label %sleep, label %done
done:
  ret void
}
""")

# Addresses of the fields of a mailbox, and what is done with the chunk in it.
_FIELDS = "\n".join(
    f"  %{name}.at = getelementptr %worker, ptr {{worker}}, i32 0, i32 {place}"
    for place, name in enumerate(("result", "task", "context", "begin", "end"), start=1)
)
_RUN_CHUNK = """\
  %task = load ptr, ptr %task.at
  %context = load ptr, ptr %context.at
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
  %result = call i32 %task(ptr %context, i64 %begin, i64 %end)
  store i32 %result, ptr %result.at"""

_WORKER = Template("""
define internal ptr @tw_worker_main(ptr %self) noinline {
entry:
$FIELDS_OF_SELF
  br label %look
look:
  %found = call i1 @tw_spin_while(ptr %self, i32 0)
  br i1 %found, label %take, label %doze
take:
  %taken = cmpxchg ptr %self, i32 1, i32 2 acq_rel monotonic
  %mine = extractvalue { i32, i1 } %taken, 1
  br i1 %mine, label %run, label %look
run:
$RUN_CHUNK
  %before = atomicrmw xchg ptr %self, i32 0 acq_rel
  %waited = icmp eq i32 %before, 3
  br i1 %waited, label %wake, label %look
wake:
  call void @tw_wake(ptr %self)
  br label %look
doze:
  %dozed = cmpxchg ptr %self, i32 0, i32 4 acq_rel monotonic
  %asleep = extractvalue { i32, i1 } %dozed, 1
  br i1 %asleep, label %sleep, label %look
sleep:
  call void @tw_sleep(ptr %self, i32 4)
  %now = load atomic i32, ptr %self acquire, align 4
  %still = icmp eq i32 %now, 4
  br i1 %still, label %sleep, label %look
}

; The caller's signal mask is filled while threads start: signals are for the program's own threads.
define internal i32 @tw_spawn(ptr %pool, i32 %wanted) noinline {
entry:
  %every = alloca [128 x i8], align 8
  %saved = alloca [128 x i8], align 8
  %thread = alloca ptr, align 8
  %spawned.at = getelementptr %pool, ptr %pool, i32 0, i32 1
  %failed.at = getelementptr %pool, ptr %pool, i32 0, i32 2
  %have = load i32, ptr %spawned.at
  %failed = load i32, ptr %failed.at
  %hopeless = icmp ne i32 %failed, 0
  br i1 %hopeless, label %keep, label %mask
keep:
  ret i32 %have
mask:
  %fill = call i32 @sigfillset(ptr %every)
  %block = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %every, ptr %saved)
  br label %check
check:
  %count = phi i32 [ %have, %mask ], [ %count.next, %started ]
  %more = icmp slt i32 %count, %wanted
  br i1 %more, label %start, label %done
start:
  %worker = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 %count
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr @tw_worker_main, ptr %worker)
  %ok = icmp eq i32 %status, 0
  br i1 %ok, label %started, label %refused
started:
  %handle = load ptr, ptr %thread
  %detach = call i32 @pthread_detach(ptr %handle)
  %count.next = add i32 %count, 1
  br label %check
refused:
  store i32 1, ptr %failed.at
  br label %done
done:
  store i32 %count, ptr %spawned.at
  %unblock = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %saved, ptr null)
  ret i32 %count
}
""")

_LAUNCH = Template("""
; One thread creates the pool; who comes meanwhile runs its region serially.
define internal ptr @tw_pool_create() noinline {
  %attempt = cmpxchg ptr @tw_creating, i32 0, i32 1 acq_rel monotonic
  %first = extractvalue { i32, i1 } %attempt, 1
  br i1 %first, label %create, label %give_up
give_up:
  ret ptr null
create:
  %pool = call ptr @tw_pool_memory()
  store atomic ptr %pool, ptr @tw_pool release, align 8
  ret ptr %pool
}

define internal void @tw_post(
    ptr %pool, i32 %parts, ptr %task, ptr %context, i64 %share, i64 %rest) {
entry:
  br label %post
post:
  %w = phi i32 [ 1, %entry ], [ %w.next, %posted ]
  %slot = sub i32 %w, 1
  %worker = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 %slot
  %index = zext i32 %w to i64
  %before = mul i64 %index, %share
  %early = icmp ult i64 %index, %rest
  %extra = select i1 %early, i64 %index, i64 %rest
  %begin = add i64 %before, %extra
  %more.one = zext i1 %early to i64
  %length = add i64 %share, %more.one
  %end = add i64 %begin, %length
$FIELDS_OF_WORKER
  store ptr %task, ptr %task.at
  store ptr %context, ptr %context.at
  store i64 %begin, ptr %begin.at
  store i64 %end, ptr %end.at
  %was = atomicrmw xchg ptr %worker, i32 1 acq_rel
  %slept = icmp eq i32 %was, 4
  br i1 %slept, label %wake, label %posted
wake:
  call void @tw_wake(ptr %worker)
  br label %posted
posted:
  %w.next = add i32 %w, 1
  %again = icmp slt i32 %w.next, %parts
  br i1 %again, label %post, label %done
done:
  ret void
}

; From the last worker to the first, since the first ones were woken first.
define internal void @tw_take_back(ptr %pool, i32 %parts) {
entry:
  br label %look
look:
  %w = phi i32 [ %parts, %entry ], [ %w.next, %next ]
  %slot = sub i32 %w, 2
  %worker = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 %slot
  %state = load atomic i32, ptr %worker monotonic, align 4
  %untouched = icmp eq i32 %state, 1
  br i1 %untouched, label %take, label %next
take:
  %attempt = cmpxchg ptr %worker, i32 1, i32 0 acq_rel monotonic
  %taken = extractvalue { i32, i1 } %attempt, 1
  br i1 %taken, label %run, label %next
run:
$FIELDS_OF_WORKER
$RUN_CHUNK
  br label %next
next:
  %w.next = sub i32 %w, 1
  %again = icmp sgt i32 %w.next, 1
  br i1 %again, label %look, label %done
done:
  ret void
}

define internal i32 @tw_join(ptr %pool, i32 %parts, i32 %own) {
entry:
  br label %join
join:
  %w = phi i32 [ 1, %entry ], [ %w.next, %joined ]
  %status = phi i32 [ %own, %entry ], [ %status.next, %joined ]
  %slot = sub i32 %w, 1
  %worker = getelementptr %pool, ptr %pool, i32 0, i32 4, i32 %slot
  %state = load atomic i32, ptr %worker acquire, align 4
  %running = icmp eq i32 %state, 2
  br i1 %running, label %wait, label %joined
wait:
  call void @tw_wait_done(ptr %worker)
  br label %joined
joined:
  %result.at = getelementptr %worker, ptr %worker, i32 0, i32 1
  %result = load i32, ptr %result.at
  %clean = icmp eq i32 %status, 0
  %status.next = select i1 %clean, i32 %result, i32 %status
  %w.next = add i32 %w, 1
  %again = icmp slt i32 %w.next, %parts
  br i1 %again, label %join, label %done
done:
  ret i32 %status.next
}

define i32 @tw_parallel_launch(ptr %task, ptr %context, i64 %extent) {
entry:
  %empty = icmp slt i64 %extent, 1
  br i1 %empty, label %nothing, label %count
nothing:
  ret i32 0
count:
  %threads = call i32 @tw_threads_here()
  %one.thread = icmp slt i32 %threads, 2
  %one.item = icmp eq i64 %extent, 1
  %alone = or i1 %one.thread, %one.item
  br i1 %alone, label %serial, label %find
serial:
  %serial.status = call i32 %task(ptr %context, i64 0, i64 %extent)
  ret i32 %serial.status
find:
  %known = load atomic ptr, ptr @tw_pool acquire, align 8
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %create, label %enter
create:
  %created = call ptr @tw_pool_create()
  %no.pool = icmp eq ptr %created, null
  br i1 %no.pool, label %serial, label %enter
enter:
  %pool = phi ptr [ %known, %find ], [ %created, %create ]
  %entered = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %ours = extractvalue { i32, i1 } %entered, 1
  br i1 %ours, label %staff, label %serial
staff:
  %spawned.at = getelementptr %pool, ptr %pool, i32 0, i32 1
  %spawned = load i32, ptr %spawned.at
  %wanted = sub i32 %threads, 1
  %short = icmp slt i32 %spawned, %wanted
  br i1 %short, label %spawn, label %split
spawn:
  %now = call i32 @tw_spawn(ptr %pool, i32 %wanted)
  br label %split
split:
  %have = phi i32 [ %wanted, %staff ], [ %now, %spawn ]
  %hands = add i32 %have, 1
  %hands.wide = zext i32 %hands to i64
  %fewer = icmp slt i64 %extent, %hands.wide
  %parts.wide = select i1 %fewer, i64 %extent, i64 %hands.wide
  %parts = trunc i64 %parts.wide to i32
  %share = udiv i64 %extent, %parts.wide
  %covered = mul i64 %share, %parts.wide
  %rest = sub i64 %extent, %covered
  %lonely = icmp eq i32 %parts, 1
  br i1 %lonely, label %only, label %fork
only:
  %only.status = call i32 %task(ptr %context, i64 0, i64 %extent)
  store atomic i32 0, ptr %pool release, align 4
  ret i32 %only.status
fork:
  call void @tw_post(ptr %pool, i32 %parts, ptr %task, ptr %context, i64 %share, i64 %rest)
  %some.rest = icmp ne i64 %rest, 0
  %one = zext i1 %some.rest to i64
  %own.end = add i64 %share, %one
  %own = call i32 %task(ptr %context, i64 0, i64 %own.end)
  call void @tw_take_back(ptr %pool, i32 %parts)
  %status = call i32 @tw_join(ptr %pool, i32 %parts, i32 %own)
  store atomic i32 0, ptr %pool release, align 4
  ret i32 %status
}
""")

_SC_NPROCESSORS = {"linux": 84, "darwin": 58}


def thread_pool_ir(platform: NativePlatform) -> str:
    """The pool's source for ``platform``; it defines the five ``tw_*`` functions of the C ABI."""
    limit = thread_limit_ir(platform)
    if not platform.has_threads:
        return system.SERIAL_POOL + limit
    sleeping = system.CONDITION_SYSTEM if platform.futex_syscall is None else system.FUTEX_SYSTEM
    text = "".join(
        part.template for part in (_TYPES, sleeping, system.SETTINGS, _WAITING, _WORKER, _LAUNCH)
    )
    return limit + Template(text).substitute(
        _PATIENCE,
        MAX_THREADS=MAX_THREADS,
        DEFAULT_SPIN_NS=DEFAULT_SPIN_NS,
        FIELDS_OF_SELF=_FIELDS.format(worker="%self"),
        FIELDS_OF_WORKER=_FIELDS.format(worker="%worker"),
        RUN_CHUNK=_RUN_CHUNK,
        RELAX=platform.relax_instruction,
        RELAX_TYPE=platform.relax_instruction.replace("i32 1", "i32"),
        CLOCK=platform.clock_monotonic,
        FUTEX=platform.futex_syscall,
        SIG_SETMASK=platform.sig_setmask,
        SC_NPROCESSORS=_SC_NPROCESSORS.get(platform.system, 84),
    )
