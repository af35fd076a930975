"""A sane schedule without a search: the draft that the analytic prior likes best.

Used for `--effort none` and for programs that a database does not know. Nothing is measured; it
takes a fraction of a second.

A program with symbolic shapes is scheduled for one size. The steps are then taken on the program
itself, where they mean the same for every size.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright import ir, records
from tilewright.cost_model.prior import AnalyticPrior
from tilewright.database.base import fallback_schedules
from tilewright.driver import lower, lower_for_build
from tilewright.errors import MemberError, TilewrightError
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.loop_kind import Parallel
from tilewright.schedule.primitives.sample_compute_location import SampleComputeLocation
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.replayer import Draft, Origin, Replayer, SearchStatistics, Sketch
from tilewright.space.generators import default_space
from tilewright.space.gpu.plain_loops import plain_schedule
from tilewright.space.mutators.decisions import categorical_draws
from tilewright.target import Target
from tilewright.tune.better_choices import MOST_STEPS, with_better_choices
from tilewright.tune.context import TuneContext, normalize_mod
from tilewright.tune.stand_in_sizes import stand_in_sizes

DRAFTS = 32
DRAFTS_AROUND_INSTRUCTIONS = 16  # rules leave little open there
# To replay in all: well under a second. On GPUs the best are improved afterwards.
STEPS, STEPS_ON_GPU = 1300, 650
PATIENCE = 4  # times as much of both, as long as no draft is accepted
# How many others a step that tries each place counts for.
SLOW_STEPS: dict[type, int] = {SampleComputeLocation: 40}
SEED = 1
SKETCHES = 4  # whose best drafts are improved
_DECISION = re.compile(r"decision=[^)]*")
# Programs that end before another core has begun: the best `SERIAL` drafts are made serial, too.
SHORT_SECONDS = 5e-6
SERIAL = 3
# Calculation flatters plain loops, of which it does not know what LLVM makes: they must be better
# by a factor of two to this power.
PLAIN_HANDICAP, PLAIN_HANDICAP_ON_GPU = 0.25, 1.0
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
                replayer = _replayer(context)
                ranked = _ranked(context, sketches, replayer)
                improved = [_improved(context, ranked, replayer)] if ranked else []
                best = _first_that_lowers([*improved, *ranked], where, logger)
            return plain_schedule(module, where) if best is None else best
        stand_in = func.specialize(stand_in_sizes(func))
        for space in _SPACES:
            context = _context(stand_in, where, space)
            ranked = _ranked(context, context.generate_design_space(), _replayer(context))
            found = _for_all_sizes(module, ranked, where)
            if found is not None:
                return found
        return plain_schedule(module, where)
    except MemberError:
        raise
    except TilewrightError as error:
        logger.warning("no schedule was found, the program is used as it is: %s", error)
        return plain_schedule(module, where)


def best_of_sketches(context: TuneContext, sketches: Sequence[Schedule]) -> Schedule | None:
    """The best schedule that a space offers, by calculation; None if the program is better."""
    replayer = _replayer(context)
    ranked = _ranked(context, sketches, replayer)
    if not ranked or ranked[0].trace is None or not ranked[0].trace.has_steps():
        return None
    if context.target is None or context.target.is_cpu:
        return ranked[0]
    return _improved(context, ranked, replayer)


def _improved(context: TuneContext, ranked: Sequence[Schedule], replayer: Replayer) -> Schedule:
    """The first schedule, or one with other choices that should be faster.

    The best of some other sketches gets a chance as well: drafts are few.
    """
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


def _ranked(
    context: TuneContext, sketches: Sequence[Schedule], replayer: Replayer
) -> list[Schedule]:
    """Schedules of a program, the one that should be the fastest first; the program is one."""
    assert context.mod is not None
    assert context.target is not None
    plain = plain_schedule(context.mod, context.target)
    most, chosen = DRAFTS, _around_instructions(sketches) if context.target.is_cpu else []
    if chosen:
        sketches, most = chosen, DRAFTS_AROUND_INSTRUCTIONS
    drafts = _drafts(context, sketches, most, replayer)
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


def _drafts(
    context: TuneContext, sketches: Sequence[Schedule], most: int, replayer: Replayer
) -> list[Draft]:
    engine, numbered = RandomEngine(SEED), [Sketch(*item) for item in enumerate(sketches)]
    found: dict[int, Draft] = {}
    tried: set[Origin | None] = set()
    assert context.target is not None
    steps = STEPS_ON_GPU if "gpu" in context.target.keys else STEPS
    left = steps
    for number in range(max(PATIENCE * most, len(sketches)) if sketches else 0):
        sketch, seed = numbered[number % len(numbered)], engine.fork_seed()
        left -= sum(SLOW_STEPS.get(inst.primitive, 1) for inst in sketch.trace.insts)
        is_over = left < 0 or number >= most
        if number >= len(sketches) and is_over and (found or left < -PATIENCE * steps):
            break
        origin = sketch.drawn(seed)
        if origin is not None and origin in tried:
            continue
        tried.add(origin)
        draft = replayer.replay(sketch.trace, seed)
        if draft is not None:
            found.setdefault(draft.shash, draft)
    return list(found.values())
