"""TVM's side of the comparison of search spaces for GPUs; runs in TVM's own environment.

Each line on standard input is a JSON object with `program` (script under the names of TVM 0.14),
`target`, `seed` and `rules` (a list of [name, arguments]), from which TVM makes its sketches, and
any of
- `replays`: pairs of the number of a sketch and the decisions to replay it with,
- `drafts`: seeds to draw each sketch with; each draft goes through all post-processors,
- `mutants`: seeds to mutate the number of threads in each sketch with.
The answer is one line, again under those names.
"""

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import tvm


def leave_out_intrinsics() -> None:
    """Keep TVM from registering all its tensor intrinsics at once, which takes it a minute.

    The modules under the package stay importable one by one.
    """
    package = types.ModuleType("tvm.s_tir.tensor_intrin")
    package.__path__ = [str(Path(tvm.__file__).parent / "s_tir" / "tensor_intrin")]
    sys.modules[package.__name__] = package


leave_out_intrinsics()

from tvm.s_tir import Schedule, meta_schedule as ms  # noqa: E402
from tvm.s_tir.schedule import Trace  # noqa: E402
from tvm_side import from_tvm, plain, to_tvm, trace_text  # type: ignore[import-not-found]  # noqa: E402

# Keys of annotations that TVM has renamed.
KEYS = {
    "meta_schedule.write_cache_level": "s_tir.meta_schedule.write_cache_level",
    "tir.manifest_shared_memory_local_stage": "tirx.manifest_shared_memory_local_stage",
}
INTRINSICS = {"intrin_name": "dot_product_common", "intrin_groups": "cuda"}
POSTPROCS = (
    "DisallowDynamicLoop",
    "RewriteCooperativeFetch",
    "RewriteUnboundBlock",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "VerifyGPUCode",
)


def renamed(text: str, *, back: bool) -> str:
    """A text with the keys of today, or, `back`, with those of TVM 0.14."""
    for old, new in KEYS.items():
        text = text.replace(new, old) if back else text.replace(f'"{old}"', f'"{new}"')
    return text


def make_rule(name: str, arguments: dict[str, Any]) -> Any:
    """A rule by name; arguments are plain values."""
    for key, module in INTRINSICS.items():
        if key in arguments:
            importlib.import_module(f"tvm.s_tir.tensor_intrin.{module}")
    made = {
        key: ms.schedule_rule.ReuseType(**value) if key.startswith("reuse_") and value else value
        for key, value in arguments.items()
    }
    return getattr(ms.schedule_rule, name)(**made)


def context(program: Any, request: dict[str, Any]) -> Any:
    """TVM's task."""
    mutators = tvm.get_global_func("s_tir.meta_schedule.MutatorDefaultCUDA")()
    return ms.TuneContext(
        mod=program,
        target=tvm.target.Target(request["target"]),
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=[make_rule(name, arguments) for name, arguments in request["rules"]],
            postprocs=[getattr(ms.postproc, name)() for name in POSTPROCS],
            mutator_probs=mutators,
        ),
        rand_state=request["seed"],
        num_threads=1,
    )


def described(schedule: Any) -> dict[str, str]:
    """A schedule as texts."""
    return {
        "script": renamed(from_tvm(schedule.mod.script()), back=True),
        "trace": renamed(trace_text(schedule), back=True),
    }


def replay(program: Any, sketch: Any, decisions: list[Any]) -> dict[str, str]:
    """The program that a sketch makes with other decisions."""
    insts = list(sketch.trace.insts)
    sampling = [inst for inst in insts if inst.kind.name.startswith("Sample")]
    schedule = Schedule(program)
    Trace(insts, dict(zip(sampling, decisions, strict=True))).apply_to_schedule(
        schedule, remove_postproc=True
    )
    return described(schedule)


def draft(task: Any, sketch: Any, seed: int) -> dict[str, Any]:
    """A random candidate before and after post-processing."""
    schedule = Schedule(task.mod, seed=seed)
    Trace(sketch.trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
    before = json.loads(renamed(json.dumps(plain(schedule.trace.as_json())), back=True))
    schedule.enter_postproc()
    accepted = all(step.apply(schedule) for step in task.space_generator.postprocs)
    return {"before": before, "accepted": accepted, **described(schedule)}


def mutants(task: Any, sketch: Any, seeds: list[int]) -> list[Any]:
    """Decisions with other numbers of threads, or null."""
    apply = tvm.get_global_func("s_tir.meta_schedule.MutatorApply")
    known = task.space_generator.mutator_probs
    mutator = next(m for m in known if type(m).__name__ == "MutateThreadBinding")
    made = [apply(mutator, sketch.trace, seed) for seed in seeds]
    return [None if new is None else plain(new.as_json())[1] for new in made]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What TVM makes of a request."""
    program = tvm.script.from_source(to_tvm(renamed(request["program"], back=False)))
    task = context(program, request)
    sketches = list(task.generate_design_space())
    return {
        "sketches": [described(sketch) for sketch in sketches],
        "replays": [
            replay(program, sketches[number], decisions)
            for number, decisions in request.get("replays", ())
        ],
        "drafts": [
            [draft(task, sketch, seed) for seed in request.get("drafts", ())] for sketch in sketches
        ],
        "mutants": [mutants(task, sketch, request.get("mutants", [])) for sketch in sketches],
    }


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        try:
            made = answer(json.loads(line))
        except Exception as error:
            made = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(made), flush=True)


if __name__ == "__main__":
    main()
