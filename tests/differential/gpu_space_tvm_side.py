"""TVM's side of the differential tests of GPU search spaces; runs in TVM's own environment.

Each line on standard input is a JSON object:
`program` (a script under the names of TVM 0.14), `target`, and what to do with the program, one of
- `rules`: make the design space with these rules, `[[class, {argument: value}], ...]` or a kind;
- `apply`: apply these rules one after the other to the block `block` of a fresh schedule;
- `postprocs` with `trace`: replay a trace and apply these post-processors to the result;
- `mutator` with `trace` and `seeds`: mutate a trace once for each seed.
The answer is one line, under those names, too.
"""

import importlib
import json
import sys
from typing import Any

import tvm
from tvm.s_tir import Schedule, meta_schedule as ms
from tvm_side import from_tvm, plain, to_tvm, trace_text

SEED = 42
Spec = list[Any]  # [class, {argument: value}]


def make(family: Any, spec: Spec) -> Any:
    """A member of a space from its name and arguments."""
    name, arguments = spec
    made = {key: _argument(value) for key, value in arguments.items()}
    return getattr(family, name)(**made)


def _argument(value: Any) -> Any:
    if isinstance(value, dict) and "req" in value:
        return ms.schedule_rule.ReuseType(**value)
    return value


def context(program: Any, target: str, generator: Any) -> Any:
    """A task of TVM's."""
    return ms.TuneContext(
        mod=program,
        target=tvm.target.Target(target),
        space_generator=generator,
        rand_state=SEED,
        num_threads=1,
        task_name="task",
    )


def generator(rules: Any = (), postprocs: Any = (), mutators: Any = None) -> Any:
    """A space generator of given members."""
    return ms.space_generator.PostOrderApply(
        sch_rules=rules if isinstance(rules, str) else list(rules),
        postprocs=list(postprocs),
        mutator_probs=mutators or {},
    )


def described(schedule: Any) -> dict[str, Any]:
    """A schedule as plain values."""
    return {
        "script": from_tvm(schedule.mod.script()),
        "trace": trace_text(schedule),
        "json": plain(schedule.trace.as_json()),
    }


def to_names_of_today(trace: Any) -> Any:
    """A trace in JSON with the instruction names that TVM 0.25 reads."""
    insts, decisions = trace
    renamed = []
    for kind, inputs, attrs, outputs in insts:
        if kind == "Split" and len(attrs) == 1:
            attrs = [*attrs, 0]  # disable_predication
        renamed.append([{"GetBlock": "GetSBlock"}.get(kind, kind), inputs, attrs, outputs])
    return [renamed, decisions]


def replayed(program: Any, trace: Any) -> Any:
    """A schedule on which a trace was replayed."""
    schedule = Schedule(program, seed=SEED)
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(to_names_of_today(trace), schedule)
    return schedule


def design_space(program: Any, request: dict[str, Any]) -> Any:
    wanted = request["rules"]
    rules = wanted if isinstance(wanted, str) else [make(ms.schedule_rule, r) for r in wanted]
    task = context(program, request["target"], generator(rules))
    return {"schedules": [described(sch) for sch in task.generate_design_space()]}


def apply_rules(program: Any, request: dict[str, Any]) -> Any:
    rules = [make(ms.schedule_rule, rule) for rule in request["apply"]]
    context(program, request["target"], generator(rules))
    schedules = [Schedule(program, seed=SEED)]
    for rule in rules:
        schedules = [
            made for sch in schedules for made in rule.apply(sch, sch.get_sblock(request["block"]))
        ]
    return {"schedules": [described(sch) for sch in schedules]}


def postprocess(program: Any, request: dict[str, Any]) -> Any:
    steps = [make(ms.postproc, spec) for spec in request["postprocs"]]
    context(program, request["target"], generator(postprocs=steps))
    schedule = replayed(program, request["trace"])
    schedule.enter_postproc()
    accepted = all(step.apply(schedule) for step in steps)
    return {"accepted": accepted, **described(schedule)}


def mutate(program: Any, request: dict[str, Any]) -> Any:
    # The method of TVM's Python class takes no seed, the function behind it does.
    apply = tvm.get_global_func("s_tir.meta_schedule.MutatorApply")
    wanted = f"MutatorDefault{request['kind']}"
    known = tvm.get_global_func(f"s_tir.meta_schedule.{wanted}")()
    mutator = next(m for m in known if type(m).__name__ == request["mutator"])
    context(program, request["target"], generator(mutators={mutator: 1.0}))
    trace = replayed(program, request["trace"]).trace
    made = [apply(mutator, trace, seed) for seed in request["seeds"]]
    return {"traces": [None if new is None else plain(new.as_json()) for new in made]}


ACTIONS = {
    "rules": design_space,
    "apply": apply_rules,
    "postprocs": postprocess,
    "mutator": mutate,
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What TVM makes of a request."""
    try:
        program = tvm.script.from_source(to_tvm(request["program"]))
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"}
    if request.get("intrinsics"):
        importlib.import_module("tvm.s_tir.tensor_intrin.cuda")
    action = next(ACTIONS[key] for key in ACTIONS if key in request)
    try:
        result: dict[str, Any] = action(program, request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return result


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
