"""The texts that logs show: the table of tasks and the table of the profiler."""

from __future__ import annotations

import pytest

from tilewright.errors import TuneError
from tilewright.testing.small_search import matmul
from tilewright.tune.context import TuneContext
from tilewright.tune.logs import statistics_table, text_table
from tilewright.tune.profiler import Profiler
from tilewright.tune.task import FAILED_MS, TaskRecord


def task(name: str, *latency_ms: float, weight: float = 1.0, done: bool = False) -> TaskRecord:
    record = TaskRecord(TuneContext(matmul, task_name=name), weight, is_terminated=done)
    record.counts.latency_ms = list(latency_ms)
    return record


def test_statistics() -> None:
    tasks = [
        task("matmul", 0.02, 0.016, FAILED_MS, weight=2.0, done=True),
        task("failing", FAILED_MS, FAILED_MS),
        task("waiting"),
        task("slow", 1234.5),
    ]
    assert statistics_table(tasks) == (
        " ID |    Name |  FLOP | Weight | Speed (GFLOPS) | Latency (us) | Weighted Latency (us) |"
        " Trials | Done \n"
        "----------------------------------------------------------------------------------------"
        "---------------\n"
        "  0 |  matmul | 65536 |      2 |         4.0960 |      16.0000 |               32.0000 |"
        "      3 |    Y \n"
        "  1 | failing | 65536 |      1 |            N/A |          N/A |                   N/A |"
        "      2 |      \n"
        "  2 | waiting | 65536 |      1 |            N/A |          N/A |                   N/A |"
        "      0 |      \n"
        "  3 |    slow | 65536 |      1 |         0.0001 | 1234500.0000 |          1234500.0000 |"
        "      1 |      \n"
        "Total trials: 4\n"
        "Total latency (us): 1.23453e+06"
    )


def test_no_task_has_a_result() -> None:
    table = statistics_table([task("waiting")])
    assert table.endswith("\nTotal trials: 0\nTotal latency (us): 0")


def test_cells() -> None:
    assert text_table(["ID", "x"], [["", 0.5], [10, "y"]]) == (
        " ID |      x \n-------------\n    | 0.5000 \n 10 |      y "
    )


# --- the profiler -------------------------------------------------------------------------------


def test_the_table_of_a_profiler() -> None:
    with Profiler() as profiler:
        Profiler.count("SendToBuilder", 90.0)
        Profiler.count("SendToRunner", 30.0)
        Profiler.count("Search", 60.0)
        Profiler.count("SendToRunner", 3.0)
    profiler.add("Total", 300.0 - profiler.get()["Total"])
    assert profiler.table() == (
        " ID |          Name | Time (min) | Percentage \n"
        "----------------------------------------------\n"
        "    |         Total |     5.0000 |   100.0000 \n"
        "  1 | SendToBuilder |     1.5000 |    30.0000 \n"
        "  2 |        Search |     1.0000 |    20.0000 \n"
        "  3 |  SendToRunner |     0.5500 |    11.0000 "
    )


def test_steps_are_added_up() -> None:
    with Profiler() as profiler:
        for _ in range(3):
            with Profiler.timeit("step"):
                pass
    assert set(profiler.get()) == {"Total", "step"}
    assert 0 <= profiler.get()["step"] <= profiler.get()["Total"]


def test_a_step_that_fails_counts() -> None:
    with Profiler() as profiler, pytest.raises(ValueError), Profiler.timeit("step"):
        raise ValueError
    assert "step" in profiler.get()


def test_the_innermost_profiler_counts() -> None:
    with Profiler() as outer:
        with Profiler() as inner, Profiler.timeit("inside"):
            pass
        with Profiler.timeit("outside"):
            pass
    assert set(inner.get()) == {"Total", "inside"}
    assert set(outer.get()) == {"Total", "outside"}


def test_without_a_profiler_nothing_is_counted() -> None:
    with Profiler.timeit("step"):
        Profiler.count("other", 1.0)
    with Profiler() as profiler:
        pass
    assert set(profiler.get()) == {"Total"}


def test_no_table_before_the_end() -> None:
    profiler = Profiler()
    text = r"a profiler has a table only after its `with` block has ended"
    with pytest.raises(TuneError, match=text):
        profiler.table()
    with profiler, pytest.raises(TuneError, match=text):
        profiler.table()
