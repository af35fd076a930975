"""ONNX's own node tests, run by our kernels, with our own counts.

    python -m tilewright.testing.onnx_conformance [PATTERN] [--fallback] [--schedules]

A case passes if our kernels compute what it says. What is refused with a message is counted apart,
and so is what needs no kernel because its result is known when the model is imported, and, with
--fallback, what a reference computes in part.
"""

from __future__ import annotations

import argparse
import collections
import enum
import importlib
import math
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.errors import TilewrightError
from tilewright.frontend.onnx import SpecializedModel
from tilewright.frontend.onnx.importer import input_protos
from tilewright.frontend.partial import PartialImportWarning
from tilewright.graph.graph import Array
from tilewright.model.kernels import Scheduler, without_search
from tilewright.target import Target


class CaseOutcome(enum.Enum):
    """What became of a case."""

    PASSED = "passed by own kernels"
    KNOWN = "known at import"
    FALLBACK = "computed by reference in part"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Case:
    """A model, and inputs with the outputs that they have to give."""

    name: str
    model: bytes
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Result:
    """The outcome of a case, and the message that goes with it."""

    case: Case
    outcome: CaseOutcome
    message: str = ""


def node_cases(pattern: str = "", modules: Sequence[str] | None = None) -> list[Case]:
    """The node tests of the installed onnx whose names match; of some modules, or of all.

    All of them take seconds to make; `modules` ("relu", "conv", ...) are made at once.
    """
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cases that overflow on purpose
        if modules is None:
            found = node.collect_testcases(None)
        else:
            found = []
            for name in modules:
                known = len(node._NodeTestCases)
                importlib.import_module(f"{node.__name__}.{name}")
                found += node._NodeTestCases[known:]
    return [
        Case(one.name, one.model.SerializeToString(), one.data_sets, one.rtol, one.atol)
        for one in found
        if one.model is not None and one.data_sets is not None and re.search(pattern, one.name)
    ]


def light_cases(pattern: str = "") -> list[Case]:
    """Whole models in the installed onnx, whose weights are one number each, with their outputs."""
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    cases = []
    for path in sorted(folder.glob("light_*.onnx")):
        if re.search(pattern, path.stem):
            model = onnx.load(str(path))
            inputs = [_ramp(given) for given in input_protos(model)]
            tensor = onnx.load_tensor(str(path.with_name(f"{path.stem}_output_0.pb")))
            outputs = [numpy_helper.to_array(tensor)]
            bytes_ = path.read_bytes()
            cases.append(Case(path.stem, bytes_, [(inputs, outputs)], rtol=1e-3, atol=1e-7))
    return cases


def _ramp(given: Any) -> Array:
    """From 0 to 1, which the outputs of light models were made of."""
    shape = [max(dim.dim_value, 1) for dim in given.type.tensor_type.shape.dim]
    count = math.prod(shape)
    made: Array = (np.arange(count).reshape(shape) / count).astype(np.float32)
    return made


def without_schedule(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    """The program as the graph gives it: quick to compile, which small cases need most."""
    return ir.IRModule({str(func.attrs["global_symbol"]): func})


def run_case(case: Case, schedule: Scheduler = without_schedule, fallback: bool = False) -> Result:
    """Import, compile and run a case, and compare; what is refused, by reference if asked to."""
    result = _run_case(case, schedule, partial=False)
    if not fallback or result.outcome is not CaseOutcome.REFUSED:
        return result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialImportWarning)
        again = _run_case(case, schedule, partial=True)
    if again.outcome in (CaseOutcome.PASSED, CaseOutcome.KNOWN):
        return Result(case, CaseOutcome.FALLBACK, result.message)
    is_random = "bernoulli" in case.name  # any result of the right type would do
    return again if again.outcome is CaseOutcome.FAILED and not is_random else result


def _run_case(case: Case, schedule: Scheduler, partial: bool) -> Result:
    try:
        model = SpecializedModel(case.model, schedule=schedule, partial=partial)
        has_kernels = False
        for inputs, outputs in case.data_sets:
            feeds = dict(zip(model.input_names, map(_array, inputs), strict=True))
            made = model(feeds)
            wrong = _difference(made, outputs, case)
            if wrong:
                return Result(case, CaseOutcome.FAILED, wrong)
            has_kernels |= model.computes(feeds)
    except TilewrightError as error:
        return Result(case, CaseOutcome.REFUSED, str(error))
    except Exception as error:  # a bug of ours
        return Result(case, CaseOutcome.FAILED, f"{type(error).__name__}: {error}")
    return Result(case, CaseOutcome.PASSED if has_kernels else CaseOutcome.KNOWN)


def _array(given: Any) -> Any:
    """An array; some cases have their tensors as ONNX stores them."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(given) if isinstance(given, TensorProto) else given


def _difference(made: Sequence[Array], wanted: Sequence[Any], case: Case) -> str:
    """Where results differ from what a case says; empty if they do not."""
    if len(made) != len(wanted):
        return f"{len(made)} outputs instead of {len(wanted)}"
    for number, (mine, theirs) in enumerate(zip(made, wanted, strict=True)):
        theirs = np.asarray(_array(theirs))
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return (
                f"output {number} is {mine.dtype}{list(mine.shape)} instead of "
                f"{theirs.dtype}{list(theirs.shape)}"
            )
        rtol = case.rtol
        if mine.dtype.name == "bfloat16":
            rtol = max(rtol, 2**-6)  # two units in the last place, as ONNX's runner allows
            mine, theirs = mine.astype(np.float32), theirs.astype(np.float32)
        try:
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=case.atol)
        except AssertionError as error:
            return f"output {number}: " + " ".join(str(error).split())[:300]
    return ""


def run_cases(cases: Iterable[Case], schedule: Scheduler = without_schedule) -> list[Result]:
    """All cases, one after the other."""
    return [run_case(case, schedule) for case in cases]


def counts(results: Iterable[Result]) -> dict[CaseOutcome, int]:
    """How many cases had each outcome."""
    found = collections.Counter(result.outcome for result in results)
    return {outcome: found[outcome] for outcome in CaseOutcome}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what matches, print what did not pass, and the counts."""
    parser = argparse.ArgumentParser(description="ONNX's node tests on our kernels")
    parser.add_argument("pattern", nargs="?", default="", help="of the names of cases")
    parser.add_argument("--light", action="store_true", help="whole models instead of nodes")
    parser.add_argument("--fallback", action="store_true", help="by reference what is refused")
    parser.add_argument("--schedules", action="store_true", help="with default schedules")
    options = parser.parse_args(arguments)
    schedule = without_search if options.schedules or options.light else without_schedule
    results = []
    for case in (light_cases if options.light else node_cases)(options.pattern):
        result = run_case(case, schedule, options.fallback)
        results.append(result)
        if result.outcome is not CaseOutcome.PASSED:
            print(f"{result.outcome.name:8} {case.name}: {result.message[:300]}", flush=True)
    for outcome, count in counts(results).items():
        print(f"{count:5} {outcome.value}")
    return int(any(result.outcome is CaseOutcome.FAILED for result in results))


if __name__ == "__main__":
    sys.exit(main())
