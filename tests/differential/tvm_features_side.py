"""TVM's side of the differential test of features; runs in TVM's own environment.

Standard input is one JSON object: names to programs (script under the names of TVM 0.14). The
answer is a line for each name: candidates sampled from TVM's own space for that program, with the
features that TVM extracts from them.
"""

import json
import sys
from typing import Any

import tvm
from tvm.s_tir import Schedule, meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm_side import from_tvm, to_tvm  # type: ignore[import-not-found]

TARGET = {"kind": "llvm", "num-cores": 4}
SEED = 42
CANDIDATES = 6


def sampled(context: Any, sketch: Any, seed: int) -> Any:
    """A candidate of a sketch, or None where a post-processor rejects it."""
    schedule = Schedule(context.mod, seed=seed)
    Trace(sketch.trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
    accepted = all(postproc.apply(schedule) for postproc in context.space_generator.postprocs)
    return schedule if accepted else None


def answer(name: str, program: str) -> dict[str, Any]:
    """Candidates of a program and their features."""
    context = ms.TuneContext(
        mod=tvm.script.from_source(to_tvm(program)),
        target=tvm.target.Target(TARGET),
        space_generator=ms.space_generator.PostOrderApply(),
        search_strategy="replay-trace",
        num_threads=1,
        rand_state=SEED,
    )
    extractor = ms.feature_extractor.PerStoreFeature(extract_workload=True)
    sketches = context.generate_design_space()
    found: list[dict[str, Any]] = []
    for number in range(10 * CANDIDATES):
        if len(found) == CANDIDATES:
            break
        schedule = sampled(context, sketches[number % len(sketches)], SEED + number)
        if schedule is not None:
            candidate = ms.MeasureCandidate(schedule, [])
            rows = extractor.extract_from(context, [candidate])[0].numpy().tolist()
            found.append({"program": from_tvm(schedule.mod.script()), "rows": rows})
    return {"name": name, "candidates": found}


def main() -> None:
    """Answer for each program."""
    for name, program in json.load(sys.stdin).items():
        print(json.dumps(answer(name, program)), flush=True)


if __name__ == "__main__":
    main()
