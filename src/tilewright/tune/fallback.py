"""A sane schedule without a search: the draft that the analytic prior likes best.

Used for `--effort none` and for programs that a database does not know. Nothing is measured; it
takes a fraction of a second.

A program with symbolic shapes is scheduled for one size: large, and prime, so that no tile divides
it. The steps are then taken on the program itself, where they mean the same for every size.

This schedule and the program as it is are the first two candidates of a search, measured like all
others, so that what it ends with is never slower than either. The program itself comes second:
where its plain loops are clearly slower, they are not run again, and those that would take seconds
are not run at all. A task of an interrupted run of which nothing was measured gets the schedule as
its result; whoever presses Ctrl-C again does not wait for it.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilewright import ir, records
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database import Database
from tilewright.database.base import fallback_schedules
from tilewright.driver import lower, lower_for_build
from tilewright.errors import MemberError, TilewrightError
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.loop_kind import Parallel
from tilewright.schedule.primitives.sample_compute_location import SampleComputeLocation
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.replayer import Draft, Origin, Replayer, SearchStatistics, Sketch
from tilewright.space.base import postprocs
from tilewright.space.generators import default_space
from tilewright.space.mutators.decisions import categorical_draws
from tilewright.target import Target
from tilewright.tune.better_choices import MOST_STEPS, with_better_choices
from tilewright.tune.context import TuneContext, normalize_mod
from tilewright.tune.task import TaskRecord

if TYPE_CHECKING:
    from tilewright.tune.measuring import Measuring

DRAFTS = 32
DRAFTS_AROUND_INSTRUCTIONS = 16  # rules leave little open there
STEPS = 1300  # to replay in all: well under a second
PATIENCE = 4  # times as much of both, as long as no draft is accepted
# A step that tries each place counts for so many others.
SLOW_STEPS: dict[type, int] = {SampleComputeLocation: 40}
SEED = 1
SKETCHES = 4  # whose best drafts are improved
_DECISION = re.compile(r"decision=[^)]*")
# What is over before another core has begun is drafted for one core, too: so many of the best.
SHORT_SECONDS = 5e-6
SERIAL = 3
# Calculation flatters plain loops, of which it does not know what LLVM makes: they must be better
# by a factor of two to this power.
PLAIN_HANDICAP, PLAIN_HANDICAP_ON_GPU = 0.25, 1.0
# Plain loops of more operations take seconds, and where there is a schedule no search ends there.
PLAIN_MOST_FLOP = 1e9
# Where programs of unknown sizes are looked for: our kernels, and sketches that need no sizes.
_SPACES = (None, "post-order-apply")


@fallback_schedules.register("default")
def default_schedule(
    mod: ir.PrimFunc | ir.IRModule, target: Target | str | None = None
) -> Schedule:
    """A good schedule of a program, chosen by calculation alone.

    A program that no rule understands comes back as it is, see `plain_schedule`.
    """
    module = normalize_mod(mod)
    logger = logging.getLogger("tilewright.tune")
    where = Target("llvm") if target is None else Target(target)
    func = module["main"]
    symbols = ir.symbols_of(func)
    try:
        if not symbols:
            context = _context(module, where)
            sketches = context.generate_design_space()
            if where.is_cpu:
                best = best_of_sketches(context, sketches)
            else:
                ranked = _ranked(context, sketches)
                improved = [_improved(context, ranked)] if ranked else []
                best = _first_that_lowers([*improved, *ranked], where, logger)
            return plain_schedule(module, where) if best is None else best
        stand_in = func.specialize(stand_in_sizes(func))
        for space in _SPACES:
            context = _context(stand_in, where, space)
            ranked = _ranked(context, context.generate_design_space())
            found = _for_all_sizes(module, ranked, where)
            if found is not None:
                return found
        return plain_schedule(module, where)
    except MemberError:
        raise
    except TilewrightError as error:
        logger.warning("no schedule was found, the program is used as it is: %s", error)
        return plain_schedule(module, where)


def plain_schedule(mod: ir.IRModule, target: Target) -> Schedule:
    """The program as it is; on a GPU, its loops shared among threads, without which none runs."""
    sch = Schedule(mod)
    if "gpu" in target.keys:
        context = _context(mod, target)
        for name in ("RewriteUnboundBlock", "RewriteReductionBlock"):
            member = postprocs.create(name)
            member._initialize_with_tune_context(context)
            member.apply(sch)
    return sch


def best_of_sketches(context: TuneContext, sketches: Sequence[Schedule]) -> Schedule | None:
    """The best schedule that a space offers, by calculation; None if the program is better."""
    ranked = _ranked(context, sketches)
    if not ranked or ranked[0].trace is None or not ranked[0].trace.has_steps():
        return None
    if context.target is None or context.target.is_cpu:
        return ranked[0]
    return _improved(context, ranked)


def _improved(context: TuneContext, ranked: Sequence[Schedule]) -> Schedule:
    """The first schedule, or one with other choices that should be faster.

    The best of some other sketches gets a chance as well: drafts are few.
    """
    replayer = _replayer(context)
    known = {_decisions_of(sch.trace) for sch in ranked if sch.trace is not None}

    def replay(trace: Trace) -> Schedule | None:
        decisions = _decisions_of(trace)
        if decisions in known:
            return None
        known.add(decisions)
        draft = replayer.replay(trace, SEED)
        return None if draft is None else draft.candidate.sch

    def costs(tried: Sequence[Schedule]) -> list[float]:
        return list(_costs(context, tried))

    if ranked[0].trace is None or not categorical_draws(ranked[0].trace):
        return ranked[0]  # plain loops, say
    starts = _first_of_each_sketch(ranked)[:SKETCHES]
    share = MOST_STEPS // 5  # enough for other candidates of one choice
    tried = [with_better_choices(start, replay, costs, share) for start in starts]
    best = min(zip(costs(tried), range(len(tried)), strict=True))[1]
    return with_better_choices(tried[best], replay, costs, MOST_STEPS // 3)


def _first_of_each_sketch(ranked: Sequence[Schedule]) -> list[Schedule]:
    """The best draft of each sketch that leaves a choice, the best of all first."""
    found: dict[str, Schedule] = {}
    for sch in ranked:
        if sch.trace is not None and categorical_draws(sch.trace):
            found.setdefault(_DECISION.sub("", _decisions_of(sch.trace)), sch)
    return [*found.values()]


def _decisions_of(trace: Trace) -> str:
    """What tells drafts of the same sketch apart, post-processing left out."""
    return "\n".join(trace.as_python(remove_postproc=True))


def _context(
    mod: ir.PrimFunc | ir.IRModule, target: Target, space: str | None = None
) -> TuneContext:
    """For one program; without a name, the space has no more than calculation looks at."""
    chosen = default_space.DefaultSpace(always_competes=False) if space is None else space
    return TuneContext(mod, target=target, space_generator=chosen, rand_state=SEED)


def _ranked(context: TuneContext, sketches: Sequence[Schedule]) -> list[Schedule]:
    """Schedules of a program, the one that should be the fastest first; the program is one."""
    assert context.mod is not None
    assert context.target is not None
    plain = plain_schedule(context.mod, context.target)
    most, chosen = DRAFTS, _around_instructions(sketches) if context.target.is_cpu else []
    if chosen:
        sketches, most = chosen, DRAFTS_AROUND_INSTRUCTIONS
    drafts = _drafts(context, sketches, most)
    schedules = [draft.candidate.sch for draft in drafts] + [plain]
    costs = _costs(context, schedules)
    costs[-1] += PLAIN_HANDICAP if context.target.is_cpu else PLAIN_HANDICAP_ON_GPU
    if context.target.is_cpu and costs.min() < math.log2(SHORT_SECONDS):
        serial = [_without_parallel(context.mod, schedules[n]) for n in costs.argsort()[:SERIAL]]
        schedules += serial
        costs = np.concatenate([costs, _costs(context, serial)])
    return [schedules[int(place)] for place in costs.argsort(kind="stable")]


def _around_instructions(sketches: Sequence[Schedule]) -> list[Schedule]:
    """The sketches around an instruction: nothing that multiplies bytes one by one is as fast.

    Those are ours, whose tiles fit into the registers; where we have none, MetaSchedule's.
    """
    own = [*filter(default_space.has_instruction, sketches)]
    return own or [*filter(default_space.waits_for_instruction, sketches)]


def _first_that_lowers(
    ranked: Sequence[Schedule], target: Target, logger: logging.Logger
) -> Schedule | None:
    """The best schedule that can be built."""
    for sch in ranked:
        try:
            lower_for_build(sch.mod, target)
        except TilewrightError as error:
            logger.info("a schedule cannot be built: %s", error)
        else:
            return sch
    return None


def _costs(context: TuneContext, schedules: Sequence[Schedule]) -> npt.NDArray[np.float64]:
    return AnalyticPrior().score(context, [records.MeasureCandidate(sch, ()) for sch in schedules])


def _without_parallel(mod: ir.IRModule, known: Schedule) -> Schedule:
    """The same schedule on one core."""
    assert known.trace is not None
    steps = [inst for inst in known.trace.insts if not is_step(inst, Parallel)]
    sch = Schedule(mod, error_render_level="fast")
    Trace(steps, known.trace.decisions).apply_to_schedule(sch, remove_postproc=False)
    return sch


def _for_all_sizes(
    module: ir.IRModule, ranked: Sequence[Schedule], target: Target
) -> Schedule | None:
    """The first of some schedules for one size that can be carried out for every size."""
    for known in ranked:
        assert known.trace is not None
        sch = Schedule(module, error_render_level="fast")
        try:
            known.trace.apply_to_schedule(sch, remove_postproc=False)
            lower(sch.mod, target)
        except TilewrightError:
            continue  # it relies on a size
        return sch
    return None


def _replayer(context: TuneContext) -> Replayer:
    assert context.mod is not None
    assert context.space_generator is not None
    return Replayer(
        context.mod,
        (),  # nothing is run, so that a program may have parameters that no measurement could fill
        context.space_generator.postprocs,
        SearchStatistics(),
        context.logger,
    )


def _drafts(context: TuneContext, sketches: Sequence[Schedule], most: int) -> list[Draft]:
    replayer = _replayer(context)
    engine, numbered = RandomEngine(SEED), [Sketch(*item) for item in enumerate(sketches)]
    found: dict[int, Draft] = {}
    tried: set[Origin | None] = set()
    left = STEPS
    for number in range(max(PATIENCE * most, len(sketches)) if sketches else 0):
        sketch, seed = numbered[number % len(numbered)], engine.fork_seed()
        left -= sum(SLOW_STEPS.get(inst.primitive, 1) for inst in sketch.trace.insts)
        is_over = left < 0 or number >= most
        if number >= len(sketches) and is_over and (found or left < -PATIENCE * STEPS):
            break
        origin = sketch.drawn(seed)
        if origin is not None and origin in tried:
            continue
        tried.add(origin)
        draft = replayer.replay(sketch.trace, seed)
        if draft is not None:
            found.setdefault(draft.shash, draft)
    return list(found.values())


ELEMENTS = 1 << 20  # of an argument: enough to be worth tiles, threads and vectors
SMALLEST = 31
ROWS = 1021  # of a matrix of which the other extent is known: large results want other stores


def stand_in_sizes(func: ir.PrimFunc) -> dict[ir.Var, int]:
    """For each symbol of a shape a prime: no tile divides it, so no schedule relies on one."""
    sizes: dict[ir.Var, int] = {}
    used: set[int] = set()
    for symbol in ir.symbols_of(func):
        buffers = [
            buffer
            for buffer in func.buffer_map.values()
            if any(var is symbol for var in _symbols(buffer))
        ]
        if not buffers:
            continue  # a stride may be any number
        size = min(_size(buffer) for buffer in buffers)
        sizes[symbol] = next(prime for prime in _primes_below(size) if prime not in used)
        used.add(sizes[symbol])
    return sizes


def _symbols(buffer: ir.Buffer) -> list[ir.Var]:
    return [var for extent in buffer.shape for var in ir.free_vars(extent)]


def _size(buffer: ir.Buffer) -> int:
    """What each symbol of a buffer may be for all of it to have `ELEMENTS` elements."""
    known = math.prod(extent.value for extent in buffer.shape if isinstance(extent, ir.IntImm))
    count = max(1, len(_symbols(buffer)))
    size: int = round((ELEMENTS / max(1, known)) ** (1 / count))
    least = ROWS if count == 1 else SMALLEST
    return max(least, size)


def _primes_below(limit: int) -> Iterator[int]:
    """Primes, the largest that is at most `limit` first; upwards from there when they run out."""
    yield from (n for n in range(limit, 1, -1) if _is_prime(n))
    yield from (n for n in range(limit + 1, 2 * limit + 64) if _is_prime(n))


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


def baselines_of(task: TaskRecord) -> dict[str, records.MeasureCandidate]:
    """The candidates that come before those of the search, by name; none if it has begun.

    Spaces of the user's own have none: their searches stay inside of them.
    """
    space, mod = task.ctx.space_generator, task.mod
    if task.trials or space is None or not space.has_baselines:
        return {}
    infos, plain = records.args_info_of(mod), Schedule(mod)
    # A GPU runs nothing whose loops are not bound to threads.
    found = {records.PLAIN: records.MeasureCandidate(plain, infos)} if task.target.is_cpu else {}
    best = best_of_sketches(task.ctx, task.search.sketches)
    if best is None or ir.structural_equal(best.mod, mod):
        return found
    if task.flop > PLAIN_MOST_FLOP or task.starts_late:  # a model has little time for each task
        found = {}
    return {records.ZERO_SEARCH: records.MeasureCandidate(best, infos), **found}


def keep_without_search(task: TaskRecord, database: Database, measurer: Measuring) -> None:
    """Measure the schedule that needs no search, and make it a record."""
    sch = default_schedule(task.mod, task.target)
    candidate = records.MeasureCandidate(sch, records.args_info_of(sch.mod))
    measured = measurer.measure(task, [candidate], lambda *phase: None, is_quick=True)
    if measured.interrupt is not None:
        raise measured.interrupt
    workload, (result,) = database.commit_workload(task.mod), measured.results
    extra = {"run": task.run, "task": task.ctx.task_name, records.BASELINE: records.ZERO_SEARCH}
    database.commit_tuning_record(
        records.TuningRecord.of(candidate, workload, task.target, result, extra)
    )
