# mypy: disable-error-code="valid-type, no-untyped-def"
"""MetaSchedule under the names of TVM: they are there, and they are ours."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import meta_schedule as ms
from tilewright.database import MemoryDatabase
from tilewright.errors import TuneError
from tilewright.ir import structural_hash
from tilewright.measure import FinishedFuture
from tilewright.runtime import register_func, remove_global_func
from tilewright.schedule import BlockRV, Schedule, Trace
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.small_search import MODULE, matmul, tile_all

NAMES = {
    "arg_info": ["ArgInfo", "TensorInfo"],
    "builder": ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create"],
    "cost_model": ["CostModel", "MLPModel", "PyCostModel", "RandomModel", "XGBModel", "create"],
    "database": [
        "Database", "JSONDatabase", "MemoryDatabase", "OrderedUnionDatabase", "PyDatabase",
        "ScheduleFnDatabase", "TuningRecord", "UnionDatabase", "Workload", "create",
    ],
    "feature_extractor": [
        "FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor",
    ],
    "measure_callback": [
        "AddToDatabase", "MeasureCallback", "PyMeasureCallback", "RemoveBuildArtifact",
        "UpdateCostModel", "create",
    ],
    "mutator": [
        "MutateComputeLocation", "MutateParallel", "MutateThreadBinding", "MutateTileSize",
        "MutateUnroll", "Mutator", "PyMutator", "create",
    ],
    "postproc": [
        "DisallowAsyncStridedMemCopy", "DisallowDynamicLoop", "Postproc", "PyPostproc",
        "RewriteCooperativeFetch", "RewriteLayout", "RewriteParallelVectorizeUnroll",
        "RewriteReductionBlock", "RewriteTensorize", "RewriteUnboundBlock", "VerifyGPUCode",
        "create",
    ],
    "extracted_task": ["ExtractedTask"],
    "profiler": ["Profiler"],
    "relax_integration": [
        "compile_relax", "extract_tasks", "extracted_tasks_to_tune_contexts", "tune_relax",
    ],
    "relay_integration": [
        "compile_relay", "extract_tasks", "extracted_tasks_to_tune_contexts", "tune_relay",
    ],
    "runner": [
        "EvaluatorConfig", "LocalRunner", "PyRunner", "PyRunnerFuture", "Runner", "RunnerFuture",
        "RunnerInput", "RunnerResult", "create",
    ],
    "schedule_rule": [
        "AddRFactor", "ApplyCustomRule", "AutoBind", "AutoInline", "CrossThreadReduction",
        "InlineConstantScalars", "MultiLevelTiling", "MultiLevelTilingTensorCore",
        "MultiLevelTilingWideVector", "MultiLevelTilingWithIntrin",
        "ParallelizeVectorizeUnroll", "PyScheduleRule", "RandomComputeLocation", "ReuseType",
        "ScheduleRule", "create",
    ],
    "search_strategy": [
        "EvolutionarySearch", "MeasureCandidate", "PySearchStrategy", "ReplayFunc", "ReplayTrace",
        "SearchStrategy", "create",
    ],
    "space_generator": [
        "PostOrderApply", "PySpaceGenerator", "ScheduleFn", "SpaceGenerator",
        "SpaceGeneratorUnion", "create",
    ],
    "task_scheduler": [
        "GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler", "create",
    ],
    "tir_integration": ["compile_tir", "tune_tir"],
    "tune": ["tune_tasks"],
    "tune_context": ["TuneContext"],
    "utils": ["cpu_count", "derived_object", "fork_seed", "shash2hex"],
}  # fmt: skip
TOP = [
    "Builder", "CostModel", "Database", "FeatureExtractor", "MeasureCallback", "MeasureCandidate",
    "Mutator", "Postproc", "Profiler", "Runner", "ScheduleRule", "SearchStrategy",
    "SpaceGenerator", "TaskScheduler", "TuneContext", "TuningRecord", "Workload", "compile_tir",
    "derived_object", "tune_tasks", "tune_te", "tune_tir",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_modules(name: str) -> None:
    module = importlib.import_module(f"tilewright.meta_schedule.{name}")
    assert getattr(ms, name) is module
    assert [each for each in NAMES[name] if not hasattr(module, each)] == []


def test_top_level_names() -> None:
    assert [name for name in TOP if not hasattr(ms, name)] == []


def test_importing_it_needs_nothing_else() -> None:
    code = "from tilewright import meta_schedule as ms; ms.TuneContext()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


CREATED: dict[str, tuple[Any, type]] = {
    "builder": (lambda: ms.Builder.create("local", max_workers=1), ms.builder.LocalBuilder),
    "runner": (lambda: ms.Runner.create("local", max_workers=4), ms.runner.LocalRunner),
    "database": (lambda: ms.Database.create("memory"), ms.database.MemoryDatabase),
    "cost model": (lambda: ms.CostModel.create("xgb", num_tuning_cores=2), ms.cost_model.XGBModel),
    "random model": (
        lambda: ms.CostModel.create("random", num_tuning_cores=2),
        ms.cost_model.RandomModel,
    ),
    "no model": (lambda: ms.CostModel.create("none"), type(None)),
    "features": (
        lambda: ms.FeatureExtractor.create("per-store-feature"),
        ms.feature_extractor.PerStoreFeature,
    ),
    "search": (lambda: ms.SearchStrategy.create(), ms.search_strategy.EvolutionarySearch),
    "scheduler": (lambda: ms.TaskScheduler.create("round-robin"), ms.task_scheduler.RoundRobin),
    "space": (lambda: ms.SpaceGenerator.create("llvm"), ms.space_generator.PostOrderApply),
    "function": (lambda: ms.SpaceGenerator.create(tile_all), ms.space_generator.ScheduleFn),
    "first rule": (lambda: ms.ScheduleRule.create("llvm")[0], ms.schedule_rule.ApplyCustomRule),
    "last post-processor": (lambda: ms.Postproc.create("llvm")[-1], ms.postproc.RewriteLayout),
    "a mutator": (lambda: next(iter(ms.Mutator.create("llvm"))), ms.mutator.MutateTileSize),
    "last callback": (
        lambda: ms.MeasureCallback.create("default")[-1],
        ms.measure_callback.UpdateCostModel,
    ),
}


@pytest.mark.parametrize("name", CREATED)
def test_contracts_make_members(name: str) -> None:
    make, expected = CREATED[name]
    assert type(make()) is expected


def test_kinds_that_have_no_default_members() -> None:
    with pytest.raises(TuneError, match=r"there are no default members for 'cudda'; did you mean"):
        ms.ScheduleRule.create("cudda")


# --- members of one's own -----------------------------------------------------------------------


def test_a_derived_object_is_the_class_itself() -> None:
    class Rule(ms.schedule_rule.PyScheduleRule):
        def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
            return [sch]

    assert ms.derived_object(Rule) is Rule
    assert ms.utils.derived_object is ms.derived_object


def test_a_derived_object_derives_from_something() -> None:
    text = r"@derived_object: Loose derives from none of PyBuilder, PyCostModel, PyDatabase"
    with pytest.raises(TuneError, match=text):

        @ms.derived_object
        class Loose:
            pass


def test_methods_that_are_missing_are_an_error() -> None:
    @ms.derived_object
    class Half(ms.task_scheduler.PyTaskScheduler):
        pass

    with pytest.raises(TypeError, match="next_task_id"):
        Half()  # type: ignore[abstract]


@ms.derived_object
class Unroll(ms.schedule_rule.PyScheduleRule):
    """Unrolls one of the loops of a block."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        loops = sch.get_loops(block)
        made = []
        for place in range(len(loops)):
            copy = sch.copy()
            copy.unroll(copy.get_loops(block)[place])
            made.append(copy)
        return made or [sch]


@ms.derived_object
class Accept(ms.postproc.PyPostproc):
    def apply(self, sch: Schedule) -> bool:
        return True


@ms.derived_object
class Same(ms.mutator.PyMutator):
    def apply(self, trace: Trace, seed: int) -> Trace | None:
        return trace


@ms.derived_object
class Builder(ms.builder.PyBuilder):
    def build(self, build_inputs: Sequence[Any]) -> list[Any]:
        return [ms.builder.BuilderResult(f"{structural_hash(i.mod)}") for i in build_inputs]


@ms.derived_object
class Runner(ms.runner.PyRunner):
    def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
        return [
            FinishedFuture(ms.runner.RunnerResult((int(i.artifact_path) % 97 * 1e-6 + 1e-6,)))
            for i in runner_inputs
        ]


@ms.derived_object
class Callback(ms.measure_callback.PyMeasureCallback):
    def __init__(self) -> None:
        self.seen = 0

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Any,
        builder_results: Any,
        runner_results: Any,
    ) -> None:
        self.seen += len(measure_candidates)


@ms.derived_object
class Last(ms.task_scheduler.PyTaskScheduler):
    """Only says which task comes next."""

    def next_task_id(self) -> int:
        alive = [n for n, task in enumerate(self.tasks) if not task.is_terminated]
        return alive[-1] if alive else -1


def test_a_run_with_members_of_ones_own() -> None:
    callback = Callback()
    space = ms.space_generator.PostOrderApply(
        sch_rules=[Unroll()], postprocs=[Accept()], mutator_probs={Same(): 1.0}
    )
    database = ms.tune_tir(
        matmul,
        "llvm -num-cores=2",
        max_trials_global=3,
        builder=Builder(),
        runner=Runner(),
        space=space,
        strategy="replay-trace",
        cost_model="random",
        task_scheduler=Last(),
        measure_callbacks=[ms.measure_callback.AddToDatabase(), callback],
        console=False,
    )
    assert callback.seen == len(database) == 3
    sch = ms.compile_tir(database, matmul, "llvm -num-cores=2")
    assert sch is not None
    assert "unroll" in str(sch.trace)


def test_a_scheduler_with_the_arguments_of_tvm() -> None:
    database = ms.database.MemoryDatabase()
    tasks = [
        ms.TuneContext(
            MODULE,
            target="llvm -num-cores=2",
            space_generator=ms.space_generator.ScheduleFn(tile_all, [], [], {}),
            search_strategy=ms.search_strategy.ReplayTrace(),
            task_name=name,
            rand_state=seed,
        )
        for seed, name in enumerate(("first", "second"), 1)
    ]
    scheduler = ms.task_scheduler.create("round-robin")
    scheduler.tune(
        tasks,
        task_weights=[1.0, 1.0],
        builder=FakeBuilder(),
        runner=FakeRunner(),
        database=database,
        measure_callbacks=ms.MeasureCallback.create("default"),
        max_trials_global=12,
        max_trials_per_task=6,
        num_trials_per_iter=3,
        cost_model=None,
    )
    assert len(database) == 12


# --- makers -------------------------------------------------------------------------------------


def test_lists_by_the_kind_of_a_target() -> None:
    kinds = [type(rule).__name__ for rule in ms.schedule_rule.create("llvm")]
    assert "MultiLevelTiling" in kinds
    assert all(isinstance(each, ms.Postproc) for each in ms.postproc.create("llvm"))
    assert all(isinstance(each, ms.Mutator) for each in ms.mutator.create("llvm"))


def test_members_by_name() -> None:
    assert isinstance(ms.builder.create("local"), ms.builder.LocalBuilder)
    assert isinstance(ms.runner.create("local"), ms.runner.LocalRunner)
    assert isinstance(ms.database.create("memory"), MemoryDatabase)
    assert isinstance(ms.cost_model.create("random"), ms.cost_model.RandomModel)
    assert isinstance(ms.search_strategy.create("replay-func"), ms.search_strategy.ReplayFunc)
    assert isinstance(ms.TaskScheduler.create("gradient"), ms.task_scheduler.GradientBased)
    (only,) = ms.measure_callback.create("update-cost-model")
    assert isinstance(only, ms.measure_callback.UpdateCostModel)


def test_utilities() -> None:
    assert ms.utils.fork_seed(42, 3) == np.random.RandomState(42).randint(1, 2**30, 3).tolist()
    assert len(set(ms.utils.fork_seed(None, 8))) > 1
    assert ms.utils.shash2hex(MODULE) == f"0x{structural_hash(MODULE):016x}"
    assert 1 <= ms.utils.cpu_count(logical=False) <= ms.utils.cpu_count()


# --- rules that blocks name ---------------------------------------------------------------------


def test_a_global_function_is_a_rule() -> None:
    from tilewright.script import tir as T

    @T.prim_func
    def copy(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")) -> None:
        for i in range(32):
            with T.block("copy"):
                T.block_attr({"schedule_rule": "unrolled_copy"})
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi]

    def unrolled(sch: Schedule, block: BlockRV) -> list[Schedule]:
        sch.unroll(sch.get_loops(block)[0])
        return [sch]

    register_func("meta_schedule.cpu.unrolled_copy", unrolled, override=True)
    context = ms.TuneContext(copy, target="llvm", space_generator="post-order-apply")
    try:
        (sketch,) = context.generate_design_space()
    finally:
        remove_global_func("meta_schedule.cpu.unrolled_copy")
    assert "T.unroll(32)" in sketch.mod.script()
