"""TVM's side of the differential tests of post-processors and mutators; runs in TVM's environment.

Each line on standard input is a JSON object. With `program` (script of a module under the names of
TVM 0.14), `target`, `kind` and `samples`, TVM makes its own sketches of the program, draws each of
them so many times and post-processes the drafts. The answer lists, for each, the trace before, the
program after, and what each mutator makes of the trace with the seeds 1 to `seeds`.
With `postprocs` (names), these are applied to the program itself. With `trials`, the answer is what
TVM's replay search proposes.
"""

import importlib
import json
import sys
from typing import Any

import tvm
from tvm.s_tir import Schedule, meta_schedule as ms
from tvm.s_tir.schedule import Trace

tvm_side = importlib.import_module("tvm_side")

SEED = 7
mutate = tvm.get_global_func("s_tir.meta_schedule.MutatorApply")


def program_of(request: dict[str, Any]) -> Any:
    """The program of a request."""
    return tvm.script.from_source(tvm_side.to_tvm(request["program"]))


def context(request: dict[str, Any]) -> Any:
    """TVM's task for a request."""
    return ms.TuneContext(
        mod=program_of(request),
        target=tvm.target.Target(request["target"]),
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=request["kind"], postprocs=request["kind"], mutator_probs=request["kind"]
        ),
        search_strategy=ms.search_strategy.ReplayTrace(),
        num_threads=1,
        rand_state=SEED,
    )


def drafts(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Random drafts of every sketch, before and after the post-processors."""
    ctx = context(request)
    made = []
    for sketch in ctx.generate_design_space():
        trace = sketch.trace.simplified(remove_postproc=True)
        for seed in range(1, request["samples"] + 1):
            sch = Schedule(ctx.mod, seed=seed)
            Trace(trace.insts, {}).apply_to_schedule(sch, remove_postproc=True)
            before = tvm_side.plain(sch.trace.as_json())
            mutants = mutations(ctx, sch.trace, request["seeds"])
            sch.enter_postproc()
            accepted = all(post.apply(sch) for post in ctx.space_generator.postprocs)
            made.append(
                {
                    "before": before,
                    "mutants": mutants,
                    "accepted": accepted,
                    "script": tvm_side.from_tvm(sch.mod.script()) if accepted else "",
                    "trace": tvm_side.trace_text(sch) if accepted else "",
                }
            )
    return made


def mutations(ctx: Any, trace: Any, seeds: int) -> dict[str, list[Any]]:
    """What each mutator makes of a trace, or null."""
    found: dict[str, list[Any]] = {}
    for mutator in ctx.space_generator.mutator_probs:
        name = str(mutator).split("(")[0].split(".")[-1]
        made = [mutate(mutator, trace, seed) for seed in range(1, seeds + 1)]
        found[name] = [None if m is None else tvm_side.plain(m.as_json()) for m in made]
    return found


def finished(request: dict[str, Any]) -> dict[str, Any]:
    """The program after some post-processors."""
    sch = Schedule(program_of(request), seed=SEED)
    sch.enter_postproc()
    for name in request["postprocs"]:
        getattr(ms.postproc, name)().apply(sch)
    return {"script": tvm_side.from_tvm(sch.mod.script()), "trace": tvm_side.trace_text(sch)}


def proposals(request: dict[str, Any]) -> list[str]:
    """The traces that a search proposes first."""
    ctx = context(request)
    spaces = ctx.generate_design_space()
    ctx.pre_tuning(request["trials"], request["trials"], design_spaces=spaces)
    candidates = ctx.generate_measure_candidates()
    return [tvm_side.trace_text(candidate.sch) for candidate in candidates]


def answer(request: dict[str, Any]) -> Any:
    """What TVM makes of a request."""
    if "postprocs" in request:
        return finished(request)
    return proposals(request) if "trials" in request else drafts(request)


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
