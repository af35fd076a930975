"""Checks that every database that keeps records must pass.

from tilewright.testing.conformance import database

@pytest.mark.parametrize("check", database.CHECKS)
def test_conformance(check):
    check(MyDatabase)

One that is still there when it is opened again must pass these, too:

@pytest.mark.parametrize("check", database.PERSISTENCE_CHECKS)
def test_persistence(check, tmp_path):
    check(lambda: MyDatabase(tmp_path / "records"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.database.base import Database
from tilewright.database.history import Trial
from tilewright.errors import DatabaseError
from tilewright.ir import IRModule, structural_equal
from tilewright.records import (
    FAILED_RUN_SECS,
    FailureKind,
    TensorInfo,
    TuningRecord,
    Workload,
    args_info_of,
)
from tilewright.schedule import Schedule, Trace
from tilewright.target import Target
from tilewright.testing import te_workload

MakeDatabase = Callable[[], Database]
LLVM = "llvm -num-cores=4"


def matmul(n: int, m: int, k: int) -> IRModule:
    """A matrix product; its block is called C."""
    return IRModule({"main": te.create_prim_func(list(te_workload.matmul(n, m, k)))})


def tiled(mod: IRModule, seed: int = 1) -> Trace:
    """A trace of the product: sampled tiles, and post-processing."""
    sch = Schedule(mod, seed=seed)
    i, j, _ = sch.get_loops(sch.get_block("C"))
    tile = sch.sample_perfect_tile(i, n=2, max_innermost_factor=16)
    sch.split(i, tile)
    sch.enter_postproc()
    sch.parallel(j)
    assert sch.trace is not None
    return sch.trace


def a_record(workload: Workload, *secs: float, seed: int = 1, **more: Any) -> TuningRecord:
    """A record of a workload, measured on a CPU."""
    mod = workload.mod
    args: dict[str, Any] = {"target": Target(LLVM), "args_info": args_info_of(mod), **more}
    return TuningRecord(tiled(mod, seed), workload, tuple(secs), **args)


def assert_same_record(found: TuningRecord, expected: TuningRecord) -> None:
    """All that a record says, but for the workload object."""
    assert found.as_json()[0] == expected.as_json()[0]
    assert str(found.trace) == str(expected.trace)
    assert found.run_secs == expected.run_secs
    assert found.target == expected.target
    assert found.args_info == expected.args_info
    assert structural_equal(found.workload.mod, expected.workload.mod)


def _refusal(call: Callable[[], object]) -> str:
    """The text of the error that a call must end in."""
    try:
        call()
    except DatabaseError as error:
        return str(error)
    raise AssertionError("a wrong call was accepted")


# --- workloads ----------------------------------------------------------------------------------


def check_empty(make: MakeDatabase) -> None:
    """A new database knows nothing and says so."""
    database, mod = make(), matmul(8, 8, 8)
    assert len(database) == 0
    assert not database.has_workload(mod)
    assert database.get_all_tuning_records() == []
    assert database.workloads() == []
    assert database.get_top_k(Workload(mod, 0), 3) == []
    for kind in ("record", "schedule", "ir_module"):
        assert database.query(mod, Target(LLVM), kind=kind) is None
    assert database.problems() == []


def check_equal_workloads_are_one_object(make: MakeDatabase) -> None:
    """A program that is equal to a known one is the same workload."""
    database = make()
    first = database.commit_workload(matmul(8, 8, 8))
    assert database.commit_workload(matmul(8, 8, 8)) is first
    assert database.commit_workload(matmul(8, 8, 16)) is not first
    assert database.has_workload(matmul(8, 8, 8))
    assert not database.has_workload(matmul(8, 16, 8))
    database.commit_tuning_record(a_record(first, 1.0))
    (record,) = database.get_all_tuning_records()
    assert record.workload is first


def check_records_of_other_databases(make: MakeDatabase) -> None:
    """A record may come with a workload that the database does not know."""
    database, mod = make(), matmul(8, 8, 8)
    database.commit_tuning_record(a_record(Workload(mod, 0), 1.0))
    assert database.has_workload(mod)
    own = database.commit_workload(mod)
    (record,) = database.get_top_k(own, 1)
    assert record.workload is own


# --- records ------------------------------------------------------------------------------------


def check_record_comes_back(make: MakeDatabase) -> None:
    """What was committed is what is found, and it can be replayed."""
    database = make()
    workload = database.commit_workload(matmul(16, 16, 16))
    record = a_record(workload, 1.5, 2.5, 1.8)
    database.commit_tuning_record(record)
    (found,) = database.get_top_k(workload, 3)
    assert_same_record(found, record)
    assert structural_equal(
        found.as_measure_candidate().sch.mod, record.as_measure_candidate().sch.mod
    )
    assert found.args_info == (TensorInfo("float32", (16, 16)),) * 3


def check_fastest_first(make: MakeDatabase) -> None:
    """`get_top_k` sorts by mean, keeps equal ones in order, and takes no more than asked."""
    database = make()
    workload = database.commit_workload(matmul(8, 8, 8))
    runs = [(7.0, 8.0, 9.0), (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (1.1, 1.2, 600.0), (2.0, 2.0, 2.0)]
    for secs in runs:
        database.commit_tuning_record(a_record(workload, *secs))
    found = [record.run_secs for record in database.get_top_k(workload, 3)]
    assert found == [(1.0, 2.0, 3.0), (2.0, 2.0, 2.0), (4.0, 5.0, 6.0)]
    assert database.get_top_k(workload, 0) == []
    assert len(database.get_top_k(workload, 99)) == len(database) == 5


def check_top_k_is_not_negative(make: MakeDatabase) -> None:
    """A negative number is a mistake of the caller."""
    database = make()
    workload = database.commit_workload(matmul(8, 8, 8))
    refusal = _refusal(lambda: database.get_top_k(workload, -1))
    assert refusal == "top_k must not be negative, got -1"


def check_other_workloads_do_not_count(make: MakeDatabase) -> None:
    """Records belong to their workload."""
    database = make()
    known, other = database.commit_workload(matmul(8, 8, 8)), matmul(8, 8, 16)
    database.commit_tuning_record(a_record(known, 1.0))
    assert database.get_top_k(database.commit_workload(other), 3) == []
    assert database.query_tuning_record(other, Target(LLVM), "main") is None


def check_failures_are_kept_but_never_used(make: MakeDatabase) -> None:
    """A failed candidate is a record, not a result; nor is one without steps of its own."""
    database = make()
    workload = database.commit_workload(matmul(8, 8, 8))
    failed = a_record(workload, FAILED_RUN_SECS, failure=FailureKind.TIMEOUT, error_msg="slow")
    wrong = a_record(workload, 1e-9, seed=2, failure=FailureKind.WRONG_RESULT)
    trivial = TuningRecord(Trace(), workload, (1e-9,), Target(LLVM))
    database.commit_tuning_records([failed, trivial])
    assert len(database) == len(database.get_all_tuning_records()) == 2
    assert len(database.get_tuning_records_of(workload)) == 2
    assert database.get_tuning_records_of(Workload(matmul(8, 8, 16), 0)) == []
    assert not failed.is_valid
    assert not wrong.is_valid
    assert database.get_top_k(workload, 3) == []
    assert database.query_tuning_record(workload.mod, Target(LLVM), "main") is None


def check_committing_again_changes_nothing(make: MakeDatabase) -> None:
    """The same record twice is one record; the same candidate measured anew is another."""
    database = make()
    workload = database.commit_workload(matmul(8, 8, 8))
    record = a_record(workload, 1.0)
    assert database.commit_tuning_records([record, record]) == 1
    assert database.commit_tuning_records([record]) == 0
    assert database.commit_tuning_records([a_record(workload, 2.0)]) == 1
    assert len(database) == 2


def check_many_at_once(make: MakeDatabase) -> None:
    """A round is committed together, inside a transaction or not."""
    database = make()
    workload = database.commit_workload(matmul(16, 16, 16))
    with database.transaction():
        database.commit_tuning_record(a_record(workload, 1.0))
        database.commit_tuning_records([a_record(workload, 2.0), a_record(workload, 3.0)])
        database.save_state("round", 1)
    assert len(database) == 3
    assert database.load_state("round") == 1


def check_atomic_work(make: MakeDatabase) -> None:
    """What a function commits, with what it returns; it may be called again."""
    database = make()
    workload = database.commit_workload(matmul(16, 16, 16))

    def keep() -> str:
        database.commit_tuning_record(a_record(workload, 1.0))
        database.save_state("round", 1)
        return "kept"

    assert database.atomically(keep) == database.atomically(keep) == "kept"
    assert len(database) == database.load_state("round") == 1


def check_some_at_a_time(make: MakeDatabase) -> None:
    """Batches are all records in their order."""
    database = make()
    workload = database.commit_workload(matmul(16, 16, 16))
    database.commit_tuning_records(a_record(workload, secs) for secs in (3.0, 1.0, 2.0))
    batches = [[record.mean_secs for record in batch] for batch in database.record_batches(2)]
    first, second, third = (record.mean_secs for record in database.get_all_tuning_records())
    assert batches == [[first, second], [third]]


def check_tasks(make: MakeDatabase) -> None:
    """What is told of tasks without reading all records is what the records say."""
    database = make()
    small, large = (database.commit_workload(matmul(n, n, n)) for n in (8, 16))
    run = database.history.begin_run("two")
    times = ((small, 3.0), (small, FAILED_RUN_SECS), (large, 5.0), (small, 1.0), (small, 2.0))
    for trial, (workload, secs) in enumerate(times):
        failure = FailureKind.CRASH if secs == FAILED_RUN_SECS else None
        label = "small" if workload is small else "large"
        extra = {"run": run, "task": label, "trial": trial, "seed": trial, "round": 0}
        database.commit_tuning_record(a_record(workload, secs, failure=failure, extra=extra))
    database.commit_tuning_record(a_record(small, 9.0, target=Target("llvm -mcpu=haswell")))
    tasks = database.tasks
    first, second, other = tasks.totals()
    assert (first.records, first.failed, first.failures) == (4, 1, {"crash": 1})
    assert [each.best_secs for each in (first, second, other)] == [1.0, 5.0, 9.0]
    assert first.workload == other.workload != second.workload
    assert [each.name for each in tasks.totals([second.workload])] == [second.name]
    assert [secs for _, secs in tasks.measured(first)] == [3.0, None, 1.0, 2.0]
    assert [secs for _, secs in tasks.measured(first, after=first.first)] == [None, 1.0, 2.0]
    assert [each.mean_secs for each in tasks.fastest(first, 2)] == [1.0, 2.0]
    assert [each.mean_secs for each in tasks.first(first, 1)] == [3.0]
    for count in (1, -1):
        assert [each.failure for each in tasks.failed(first, "crash", count)] == ["crash"]
    assert tasks.workload(second).mod["main"] == large.mod["main"]
    assert tasks.changed_after(second.last)[0] == {first.workload}
    assert tasks.changed_after(other.last) == (set(), other.last)
    assert [record.mean_secs for record in tasks.numbered([second.first])] == [5.0]
    labels = [(each.label, each.task, each.first) for each in tasks.run_tasks(run)]
    assert labels == [("small", first.name, first.first), ("large", second.name, second.first)]
    for name, record in tasks.named(""):
        assert [found.mean_secs for _, found in tasks.named(name)] == [record.mean_secs]


def check_claims(make: MakeDatabase) -> None:
    """Whoever is alone may measure everything, and again; nobody tells it news."""
    database = make()
    workload = database.commit_workload(matmul(16, 16, 16))
    for programs in ([1, 2**64 - 1], [2**64 - 1, 3], []):
        assert database.claim(workload, Target(LLVM), programs) == set(programs)
    assert not database.has_news(workload)
    database.commit_tuning_record(a_record(workload, 1.0))
    assert not database.has_news(workload)


def check_pruning(make: MakeDatabase) -> None:
    """`dump_pruned` copies the best of each workload, `keep_only` forgets the others."""
    database, pruned = make(), make()
    for size in (8, 16):
        workload = database.commit_workload(matmul(size, size, size))
        database.commit_tuning_records(a_record(workload, secs) for secs in (3.0, 1.0, 2.0))
    if len(pruned) == 0:  # two of them may share what is on disk
        database.dump_pruned(pruned)
        assert [record.mean_secs for record in pruned.get_all_tuning_records()] == [1.0, 1.0]
    best = [record for record in database.get_all_tuning_records() if record.mean_secs < 2]
    database.keep_only(best)
    assert len(database) == 2
    workload = database.commit_workload(matmul(8, 8, 8))
    (left,) = database.get_top_k(workload, 9)
    assert_same_record(left, a_record(workload, 1.0))


# --- queries ------------------------------------------------------------------------------------


def check_queries(make: MakeDatabase) -> None:
    """The three queries agree on the fastest record."""
    database, mod, target = make(), matmul(16, 16, 16), Target(LLVM)
    workload = database.commit_workload(mod)
    best = a_record(workload, 1.0, seed=3)
    database.commit_tuning_records([a_record(workload, 2.0), best])
    found = database.query(mod, target, kind="record")
    assert isinstance(found, TuningRecord)
    assert_same_record(found, best)
    expected = best.as_measure_candidate().sch.mod
    sch, made = database.query(mod, target), database.query(mod, target, kind="ir_module")
    assert isinstance(sch, Schedule)
    assert structural_equal(sch.mod, expected)
    assert structural_equal(made, expected)
    assert _refusal(lambda: database.query(mod, target, kind="best")) == (
        "unknown kind of query 'best'; use 'schedule', 'record' or 'ir_module'"
    )


def check_targets_count(make: MakeDatabase) -> None:
    """A record is used for compatible targets only, and that of the same target first."""
    database, mod = make(), matmul(8, 8, 8)
    workload = database.commit_workload(mod)
    wide, narrow = Target("llvm -mcpu=skylake-avx512"), Target("llvm -mcpu=haswell")
    database.commit_tuning_record(a_record(workload, 1.0, target=wide))
    assert database.query_tuning_record(mod, narrow, "main") is None
    assert database.query_tuning_record(mod, Target("nvidia/nvidia-a100"), "main") is None
    database.commit_tuning_record(a_record(workload, 2.0, target=narrow))
    for target, secs in ((wide, 1.0), (narrow, 2.0), (Target("llvm -mcpu=znver4"), 1.0)):
        found = database.query_tuning_record(mod, target, "main")
        assert found is not None
        assert found.mean_secs == secs, target
    database.commit_tuning_record(a_record(workload, 9.0, target=Target("llvm -mcpu=znver4")))
    exact = database.query_tuning_record(mod, Target("llvm -mcpu=znver4"), "main")
    assert exact is not None
    assert exact.mean_secs == 9.0


def check_misses_are_explained(make: MakeDatabase) -> None:
    """The user learns what is known instead."""
    database, target = make(), Target(LLVM)
    workload = database.commit_workload(matmul(128, 128, 128))
    near = database.nearest_workload(matmul(128, 128, 256))
    assert near is not None
    assert near.workload is workload
    assert near.difference == "C 128x128x128 is known, 128x128x256 is asked"
    assert database.explain_miss(matmul(128, 128, 256), target) == (
        "C 128x128x256 is not in the database: C 128x128x128 is known, 128x128x256 is asked"
    )


def check_scope(make: MakeDatabase) -> None:
    """`with` makes it the current one, innermost first."""
    before, outer, inner = Database.current(), make(), make()
    with outer:
        with inner:
            assert Database.current() is inner
        assert Database.current() is outer
    assert Database.current() is before


# --- beside the records -------------------------------------------------------------------------


def check_state(make: MakeDatabase) -> None:
    """Values of plain types come back as they were."""
    database = make()
    assert database.load_state("search") is None
    value = {"seed": 3, "losses": [0.5, None], "name": "größer", "done": True}
    database.save_state("search", value)
    database.save_state("other", 1)
    assert database.load_state("search") == value
    database.save_state("search", [])
    assert database.load_state("search") == []
    assert database.load_state("other") == 1


def check_history(make: MakeDatabase) -> None:
    """Runs, trials and the funnel, for reports."""
    database = make()
    history, workload = database.history, database.commit_workload(matmul(8, 8, 8))
    run = history.begin_run("matmul", target=LLVM, seed=7, options={"trials": 2})
    place = {"run": run, "task": "main", "round": 0, "seed": 7}
    database.commit_tuning_records(
        [
            a_record(workload, 2.0, extra={**place, "trial": 0, "prediction": 0.5}),
            a_record(
                workload,
                FAILED_RUN_SECS,
                seed=2,
                failure=FailureKind.CRASH,
                extra={**place, "trial": 1},
            ),
        ]
    )
    first, second = history.trials(run)
    assert (first.number, first.mean_secs, first.prediction) == (0, 2.0, 0.5)
    assert (second.number, second.mean_secs, second.failure) == (1, None, FailureKind.CRASH)
    history.add_trials([Trial(run, "main", 1, mean_secs=3.0)])
    assert history.trials(run, "main") == [first, second]
    assert history.trials(task="elsewhere") == []
    history.set_count(run, "main", 0, "proposed", 5)
    history.set_count(run, "main", 0, "proposed", 8)
    history.set_count(run, "main", 0, "legal", 2, reason="too many threads")
    counts = {(entry.stage, entry.reason): entry.count for entry in history.funnel(run)}
    assert counts == {("proposed", ""): 8, ("legal", "too many threads"): 2}
    history.finish_run(run)
    (known,) = history.runs()
    assert (known.id, known.name, known.seed, known.status) == (run, "matmul", 7, "finished")
    assert known.options == {"trials": 2}
    assert known.finished is not None


CHECKS: tuple[Callable[[MakeDatabase], None], ...] = (
    check_empty,
    check_equal_workloads_are_one_object,
    check_records_of_other_databases,
    check_record_comes_back,
    check_fastest_first,
    check_top_k_is_not_negative,
    check_other_workloads_do_not_count,
    check_failures_are_kept_but_never_used,
    check_committing_again_changes_nothing,
    check_many_at_once,
    check_atomic_work,
    check_some_at_a_time,
    check_tasks,
    check_claims,
    check_pruning,
    check_queries,
    check_targets_count,
    check_misses_are_explained,
    check_scope,
    check_state,
    check_history,
)


# --- opened again -------------------------------------------------------------------------------


def check_survives_reopening(make: MakeDatabase) -> None:
    """Everything is there again, in the same order, and nothing twice."""
    database = make()
    workload = database.commit_workload(matmul(16, 16, 16))
    records = [a_record(workload, secs, seed=int(secs)) for secs in (3.0, 1.0, 2.0)]
    database.commit_tuning_records(records)
    database.save_state("search", {"round": 3})
    database.close()
    again = make()
    assert len(again) == 3
    assert again.load_state("search") == {"round": 3}
    own = again.commit_workload(matmul(16, 16, 16))
    found = again.get_top_k(own, 3)
    for record, expected in zip(found, (records[1], records[2], records[0]), strict=True):
        assert_same_record(record, expected)
    assert again.commit_tuning_records(records) == 0
    assert len(again) == 3
    assert again.problems() == []
    again.close()


PERSISTENCE_CHECKS: tuple[Callable[[MakeDatabase], None], ...] = (check_survives_reopening,)
