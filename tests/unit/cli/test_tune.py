"""`tilewright tune` with measurements that are made up, so that it is quick and always the same."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.cost_model.gbdt import GBDTModel
from tilewright.dataset.pretrain import new_model
from tilewright.records import FailureKind
from tilewright.runtime.registry import remove_global_func

PROGRAM = """
from tilewright.testing import te_workload

def mm():
    return te_workload.matmul(32, 32, 32)

def wide():
    return te_workload.matmul(16, 64, 16)
"""
TARGET = ("--target", "llvm -num-cores=2")


@pytest.fixture
def file(command: Any) -> str:
    Path("program.py").write_text(PROGRAM)
    return "program.py:mm"


def test_it_says_what_it_does(command: Any, made_up_runner: Any, file: str) -> None:
    done = command("tune", file, "--trials", "8", "--seed", "1", *TARGET)
    lines = done.lines
    assert lines[0] == "database .tilewright/records.db"
    assert re.fullmatch(r"task mm: C 32x32x32, \d+ sketch(es)?", lines[1])
    assert lines[2].startswith("mm C 32x32x32: best ")
    assert re.match(r"mm C 32x32x32: .* of roofline, record [0-9a-f]{10}$", lines[-3])
    assert re.fullmatch(r"done in \d+ s: 8 trials", lines[-2])
    assert lines[-1] == "all records are in .tilewright/records.db"
    assert made_up_runner.asked == 8
    assert "mm" in command("db", "ls").out
    assert Path(".tilewright/logs").is_dir()


def test_a_cost_model_that_was_trained_before(
    command: Any, made_up_runner: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_model().save("taught.npz")
    asked: list[object] = []
    predict = GBDTModel.predict

    def watched(self: GBDTModel, context: Any, candidates: Any) -> Any:
        asked.append(self.prior)
        return predict(self, context, candidates)

    monkeypatch.setattr(GBDTModel, "predict", watched)
    again = ("--trials", "8", "--seed", "1", "--cost-model", "taught.npz")
    assert "8 trials" in command("tune", file, *again, *TARGET).out
    assert set(asked) == {None}  # of the file, not of the usual one, which has a prior


def test_the_same_command_again_spends_nothing(
    command: Any, made_up_runner: Any, file: str
) -> None:
    again = ("tune", file, "--trials", "8", "--seed", "1", *TARGET)
    first = command(*again).lines
    second = command(*again).lines
    assert second[0] == "database .tilewright/records.db, 8 records so far"
    assert second[-3] == first[-3]
    assert re.fullmatch(
        r"done in \d+ s: all 8 trials were known already, nothing was measured again", second[-2]
    )
    assert made_up_runner.asked == 8


def test_json(command: Any, made_up_runner: Any, file: str) -> None:
    done = command("tune", file, "--trials", "8", "--seed", "1", "--json", "--db", "x.db", *TARGET)
    events = [json.loads(line) for line in done.lines]
    assert [event["event"] for event in events[:2]] == ["tuning_started", "phase_changed"]
    assert events[-2]["event"] == "tuning_finished"
    result = events[-1]
    assert (result["event"], result["reason"], result["database"]) == ("result", "done", "x.db")
    assert (result["trials"], result["reused"]) == (8, 0)
    (task,) = result["tasks"]
    assert task["task"] == "mm"
    assert task["best_secs"] == min(e["best_secs"] for e in events if "best_secs" in e)
    assert not Path(".tilewright").exists()


def test_several_programs(command: Any, made_up_runner: Any, file: str) -> None:
    done = command("tune", file, "program.py:wide", "--trials", "16", "--seed", "1", *TARGET)
    names = [line.split(":")[0] for line in done.lines[-4:-2]]
    assert names == ["mm C 32x32x32", "wide C 16x64x16"]


def test_interruption(command: Any, made_up_runner: Any, file: str) -> None:
    made_up_runner.interrupt_at = 8
    wanted = ("tune", file, "--trials", "16", "--seed", "1", *TARGET)
    lines = command(*wanted, status=130).lines
    assert re.fullmatch(r"interrupted after \d+ s: 8 trials", lines[-2])
    assert lines[-1] == (
        "all records are in .tilewright/records.db; the same command continues from here"
    )
    assert "record" in lines[-3]
    lines = command(*wanted).lines
    assert re.fullmatch(r"done in \d+ s: 16 trials, 8 of them known already", lines[-2])


def test_an_early_interruption_leaves_the_schedule_without_a_search(
    command: Any, made_up_runner: Any, file: str
) -> None:
    made_up_runner.interrupt_at = 0
    wanted = ("tune", file, "program.py:wide", "--trials", "16", "--seed", "1", *TARGET)
    *_, mm, wide, spent, last = command(*wanted, status=130).lines
    for line in (mm, wide):
        assert re.search(r", record [0-9a-f]{10}, found without a search$", line)
    assert re.fullmatch(r"interrupted after \d+ s: 0 trials", spent)
    assert last == "all records are in .tilewright/records.db; the same command continues from here"
    assert "2 records of 2 tasks" in command("db", "ls").out
    command("report", "-o", "report.html")
    assert re.fullmatch(r"done in \d+ s: 16 trials.*", command(*wanted).lines[-2])


def test_a_machine_that_lacks_something(command: Any, made_up_runner: Any, file: str) -> None:
    """What was measured is shown, then what is missing; the next run goes on."""
    made_up_runner.interrupt_at = 8
    made_up_runner.interrupt = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    wanted = ("tune", file, "--trials", "16", "--seed", "1", *TARGET)
    stopped = command(*wanted, status=2)
    assert re.fullmatch(r"stopped after \d+ s: 8 trials", stopped.lines[-2])
    assert stopped.lines[-1] == (
        "all records are in .tilewright/records.db; the same command continues from here"
    )
    assert "record" in stopped.lines[-3]
    assert stopped.err == (
        "error: the disk is full ([Errno 28] No space left on device); free some space (TMPDIR "
        "says where temporary files go), or use another disk, then start again: what was measured "
        "is kept\n"
    )
    lines = command(*wanted).lines
    assert re.fullmatch(r"done in \d+ s: 16 trials, 8 of them known already", lines[-2])


def test_nothing_works(command: Any, made_up_runner: Any, file: str) -> None:
    made_up_runner.failure = FailureKind.WRONG_RESULT
    lines = command("tune", file, "--trials", "8", "--seed", "1", *TARGET, status=1).lines
    assert lines[-3] == (
        "mm C 32x32x32: no candidate worked (8 wrong_result); last error: it was no good"
    )


BROKEN = """
import tilewright as tw
from tilewright import te

@tw.register_func("meta_schedule.cpu.{name}", override=True)
def rule(sch, block):
    return sch.no_such_primitive(block)

def program():
    x = te.placeholder((64, 64), name="x")
    attrs = {{"schedule_rule": "{name}"}}
    return [x, te.compute((64, 64), lambda i, j: x[j, i] + 1.0, name="y", attrs=attrs)]
"""


@pytest.fixture
def broken(command: Any) -> Iterator[None]:
    """A file with a rule that fails, which is taken back afterwards."""
    Path("broken.py").write_text(BROKEN.format(name="broken"))
    yield
    remove_global_func("meta_schedule.cpu.broken")


def test_a_rule_of_the_users_own_that_fails(
    command: Any, made_up_runner: Any, broken: None
) -> None:
    done = command("tune", "broken.py:program", "--trials", "4", *TARGET, status=2)
    first, place, line, *_, last = done.err.splitlines()
    assert first == (
        "error: schedule rule ApplyCustomRule at block 'y' failed: AttributeError: "
        "Schedule has no primitive 'no_such_primitive'"
    )
    assert re.fullmatch(r'  File ".*broken\.py", line 7, in rule', place)
    assert line == "    return sch.no_such_primitive(block)"
    assert last == "keep_going=True (--keep-going) tunes without it"
    assert made_up_runner.asked == 0


def test_a_run_that_keeps_going(command: Any, made_up_runner: Any, broken: None) -> None:
    arguments = ("tune", "broken.py:program", "--trials", "4", "--keep-going", *TARGET)
    done = command(*arguments)
    assert done.out.count("    return sch.no_such_primitive(block)") == 1
    assert made_up_runner.asked > 0
    again = command(*arguments, "--json", "--db", "other.db")
    told = [json.loads(line) for line in again.lines]
    (failure,) = [each["message"] for each in told if each["event"] == "member_failed"]
    assert "    return sch.no_such_primitive(block)" in failure
    assert again.err == ""


def test_a_profile(command: Any, made_up_runner: Any, file: str) -> None:
    out = command("tune", file, "--trials", "8", "--seed", "1", "--profile", *TARGET).out
    assert re.search(r"ID \| +Name \| +Time \(min\) \| +Percentage", out)
    assert "SendToBuilder" in out


def test_the_rules_of_metaschedule_alone(command: Any, made_up_runner: Any, file: str) -> None:
    lines = command("tune", file, "--trials", "8", "--seed", "1", "--space", "llvm", *TARGET).lines
    found = [line for line in lines if line.startswith("task ")]
    assert found
    assert found != [
        line
        for line in command(
            "tune", file, "--trials", "8", "--seed", "1", "--db", "memory:", *TARGET
        ).lines
        if line.startswith("task ")
    ]


def test_without_a_search(command: Any, file: str) -> None:
    (line,) = command("tune", file, "--effort", "none", *TARGET).lines
    assert re.fullmatch(
        r"mm C 32x32x32: [\d.]+ [nµm]?s, [\d.]+ GFLOPS, \d+ % of roofline, "
        r"calculated in [\d.]+ [µm]?s without a search",
        line,
    )
    result = json.loads(command("tune", file, "--effort", "none", "--json", *TARGET).out)
    assert result["event"] == "result"
    assert "T.prim_func" in result["script"]
    assert not Path(".tilewright").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("GMN:0",), "there is no workload 'GMN'; did you mean 'GMM'?"),
        (("mm.py:f",), "there is no file mm.py"),
        (("program.py:nn",), "program.py has no 'nn'; it offers mm, wide"),
        (("GMM", "--budget", "soon"), "--budget soon: expected a time such as 90s, 10m or 1h30m"),
        (("GMM", "--effort", "some"), "--effort some: there is no such effort; known: fast, max, "
         "none, normal"),
        (("GMM", "--space", "kernel"), "unknown space generator 'kernel'; did you mean 'kernels'?"),
        (("GMM", "-o", "x.twm"), "--output is for models, and this is a program; leave it out"),
        (("GMM", "--dim", "m=1"), "--dim is for models, and this is a program; leave it out"),
        (("GMM", "--target", "lvm"), "unknown target kind 'lvm'; did you mean 'llvm'?"),
        (("GMM", "--db", "no:where"), "unknown kind of database 'no' in 'no:where'; use a path, "
         "sqlite:///PATH, postgresql://HOST/NAME, json:DIRECTORY or memory:"),
    ],
)  # fmt: skip
def test_mistakes(command: Any, file: str, arguments: tuple[str, ...], message: str) -> None:
    failed = command("tune", *arguments, status=2)
    assert failed.err == f"error: {message}\n"
    assert failed.out == ""


@pytest.mark.parametrize(
    ("database", "folder"),
    [
        ("no/such/records.db", "no/such"),
        ("sqlite:///no/records.db", "no"),
        ("json:no/records", "no"),
        ("program.py/records.db", "program.py"),
    ],
)
def test_databases_in_directories_that_are_missing(
    command: Any, file: str, database: str, folder: str
) -> None:
    done = command("tune", file, "--trials", "1", "--db", database, *TARGET, status=2)
    assert done.err == (
        f"error: --db {database}: there is no directory {folder}; create it first\n"
    )
    assert {path.name for path in Path().iterdir()} - {"__pycache__"} == {"program.py"}


def test_directories_that_cannot_be_made(command: Any, file: str) -> None:
    Path(".tilewright").write_text("a file is in the way")
    done = command("tune", file, "--trials", "1", *TARGET, status=2)
    assert done.err == "error: cannot make the directory .tilewright: File exists\n"


def test_symbolic_shapes(command: Any, made_up_runner: Any, file: str) -> None:
    Path("shapes.py").write_text(
        "from tilewright import te\n"
        "def dynamic():\n"
        "    n = te.var('n')\n"
        "    a = te.placeholder((n,), name='A')\n"
        "    return [a, te.compute((n,), lambda i: a[i] + 1.0, name='B')]\n"
    )
    why = (
        "the shape of 'A' in function 'dynamic' is symbolic (n), so it keeps the schedule that is "
        "chosen without a search; to tune it for a certain size, replace the symbol by a number"
    )
    assert command("tune", "shapes.py:dynamic", *TARGET).lines == [why]
    assert command("tune", "shapes.py:dynamic", "--effort", "none", *TARGET).lines == [why]
    wanted = ("tune", "shapes.py:dynamic", file, "--trials", "4", "--seed", "1", *TARGET)
    lines = command(*wanted).lines
    assert lines[0] == why
    assert lines[-3].startswith("mm C 32x32x32: ")
    told = command(*wanted, "--json").lines
    assert json.loads(told[0]) == {"event": "left_out", "reason": why}


def test_one_program_that_cannot_be_tuned_does_not_stop_the_others(
    command: Any, made_up_runner: Any, file: str
) -> None:
    Path("loops.py").write_text(
        "from tilewright.script import tir as T\n"
        "@T.prim_func\n"
        "def loops(A: T.Buffer((8,), 'float32')):\n"
        "    for i in range(8):\n"
        "        A[i] = T.float32(1)\n"
    )
    failed = command("tune", "loops.py:loops", *TARGET, status=2)
    assert failed.err.startswith("error: function 'loops' has no blocks")
    lines = command("tune", "loops.py:loops", file, "--trials", "4", *TARGET, status=1).lines
    assert lines[0].startswith("function 'loops' has no blocks, so there is nothing to schedule")
    assert lines[-3].startswith("mm C 32x32x32: ")


def test_a_program_that_is_wrong_itself(command: Any) -> None:
    Path("sums.py").write_text(
        "from tilewright.script import tir as T\n"
        "@T.prim_func\n"
        "def sums(A: T.Buffer((4, 4096), 'float16'), C: T.Buffer((4,), 'float16')):\n"
        "    for i, k in T.grid(4, 4096):\n"
        "        with T.block('C'):\n"
        "            vi, vk = T.axis.remap('SR', [i, k])\n"
        "            with T.init():\n"
        "                C[vi] = T.float16(0)\n"
        "            C[vi] = C[vi] + A[vi, vk]\n"
    )
    wanted = ("tune", "sums.py:sums", "--trials", "2", "--seed", "1", *TARGET)
    note = r"sums: output 'C' of the program itself is off by 3\d%: .*; accumulate in float32 .*"
    lines = command(*wanted).lines
    assert re.fullmatch(note, lines[-3])
    assert command(*wanted).lines[-3] == lines[-3]  # although nothing is run again
    done = json.loads(command(*wanted, "--json").lines[-1])
    assert f"sums: {done['tasks'][0]['notes'][0]}" == lines[-3]


@pytest.mark.slow
def test_with_real_measurements(command: Any, file: str) -> None:
    wanted = ("tune", file, "--trials", "4", "--seed", "1")
    lines = command(*wanted).lines
    assert re.match(r"mm C 32x32x32: .* of roofline, record [0-9a-f]{10}$", lines[-3])
    assert re.fullmatch(r"done in .*: 4 trials", lines[-2])
    assert (
        command(*wanted)
        .lines[-2]
        .endswith("all 4 trials were known already, nothing was measured again")
    )
    assert all("agree" in line for line in command("bench", file).lines[2:5])
