"""TVM's side of the comparison of design spaces; runs in TVM's own environment.

Each line on standard input is a JSON object with `program` (script under the names of TVM 0.14),
`target`, `seed`, `rules` (a kind of target, or a list of [name, arguments]) and `replays`: pairs of
the number of a sketch and the decisions to replay it with. The answer is one line with the traces
and programs of all sketches and replays, again under those names.
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
from tvm_side import from_tvm, to_tvm, trace_text  # type: ignore[import-not-found]  # noqa: E402

REUSE = ("reuse_read", "reuse_write")
OPERATORS = {"tir.exp": "tirx.exp"}
WRITE_CACHE_LEVEL = "meta_schedule.write_cache_level"


def program_of(text: str) -> Any:
    """A program from its script; of the keys of annotations, TVM has renamed one."""
    renamed = text.replace(WRITE_CACHE_LEVEL, f"s_tir.{WRITE_CACHE_LEVEL}")
    return tvm.script.from_source(to_tvm(renamed))


def script_of(schedule: Any) -> str:
    """The script of a program, under the old names."""
    text: str = from_tvm(schedule.mod.script())
    return text.replace(f"s_tir.{WRITE_CACHE_LEVEL}", WRITE_CACHE_LEVEL)


def make_rule(name: str, arguments: dict[str, Any]) -> Any:
    """A rule by name; arguments are plain values."""
    if "intrin_name" in arguments:
        importlib.import_module("tvm.s_tir.tensor_intrin.x86")
    made = dict(arguments)
    for key in REUSE:
        if made.get(key) is not None:
            made[key] = ms.schedule_rule.ReuseType(**made[key])
    if "disallow_op" in made:
        made["disallow_op"] = [OPERATORS.get(op, op) for op in made["disallow_op"]]
    return getattr(ms.schedule_rule, name)(**made)


def design_space(program: Any, request: dict[str, Any]) -> list[Any]:
    """The sketches of a program."""
    rules = request["rules"]
    if not isinstance(rules, str):
        rules = [make_rule(name, arguments) for name, arguments in rules]
    generator = ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=[], mutator_probs={})
    context = ms.TuneContext(
        mod=program,
        target=tvm.target.Target(request["target"]),
        space_generator=generator,
        rand_state=request["seed"],
        num_threads=1,
    )
    return list(context.generate_design_space())


def replay(program: Any, sketch: Any, decisions: list[Any]) -> str:
    """The program that a sketch makes with other decisions."""
    insts = list(sketch.trace.insts)
    sampling = [inst for inst in insts if inst.kind.name.startswith("Sample")]
    trace = Trace(insts, dict(zip(sampling, decisions, strict=True)))
    schedule = Schedule(program)
    trace.apply_to_schedule(schedule, remove_postproc=True)
    return script_of(schedule)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What TVM makes of a request."""
    program = program_of(request["program"])
    sketches = design_space(program, request)
    return {
        "sketches": [
            {"script": script_of(sketch), "trace": trace_text(sketch)} for sketch in sketches
        ],
        "replays": [
            replay(program, sketches[number], decisions)
            for number, decisions in request.get("replays", [])
        ],
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
