"""`tilewright run` and `python -m tilewright.compat`: scripts and suites written for TVM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.compat import run
from tilewright.errors import ConfigError, ScheduleError

SCRIPTS = Path(__file__).parent / "scripts"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*_script.py")), ids=lambda path: path.stem)
def test_scripts_run(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run([str(script), "--size", "64"])
    assert capsys.readouterr().out.endswith("done\n")


def test_a_suite_runs() -> None:
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = python("-m", "tilewright.cli", "run", *arguments, str(SCRIPTS / "suite_of_schedules.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed, 2 skipped" in done.stdout


def test_a_suite_that_runs_itself() -> None:
    done = python("-m", "tilewright.compat", str(SCRIPTS / "suite_of_schedules.py"), "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed, 2 skipped" in done.stdout


CASES = """
import pytest, tvm.testing

@tvm.testing.skip_parameterizations("2", reason="too slow")
@tvm.testing.xfail_parameterizations("1", "3", reason="known")
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_even(number):
    assert number % 2 == 0 and number < 2

@tvm.testing.requires_llvm_minimum_version(5)
def test_new_enough():
    assert tvm.target.codegen.llvm_version_major() >= 5

@tvm.testing.requires_llvm_minimum_version(999)
def test_not_yet():
    raise AssertionError
"""


def test_cases_that_are_skipped_or_known_to_fail(tmp_path: Path) -> None:
    suite = tmp_path / "test_cases.py"
    suite.write_text(CASES, encoding="utf-8")
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    done = python("-m", "tilewright.compat", *arguments)
    assert "2 passed, 2 skipped, 2 xfailed" in done.stdout, done.stdout + done.stderr


def test_arguments_and_status_are_the_scripts(tmp_path: Path) -> None:
    script = tmp_path / "status.py"
    script.write_text("import sys, tvm\nprint(sys.argv[1:])\nsys.exit(3)\n", encoding="utf-8")
    for command in (["-m", "tilewright.compat"], ["-m", "tilewright", "run"]):
        done = python(*command, str(script), "--help", "-x")
        assert (done.returncode, done.stdout) == (3, "['--help', '-x']\n")


def test_an_error_of_the_script_has_its_traceback(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    text = "from tvm import te\nte.placeholder((-1,), name='A')\n"
    script.write_text(text, encoding="utf-8")
    for command in (["-m", "tilewright.compat"], ["-m", "tilewright", "run"]):
        done = python(*command, str(script))
        assert done.returncode == 1
        assert f'File "{script}", line 2' in done.stderr
        assert "placeholder A: extent -1 is negative" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a script, or -m and the name of a module, got nothing"),
        (["-m"], "expected a script, or -m and the name of a module, got -m"),
        (["--x", "a.py"], "expected a script, or -m and the name of a module, got --x a.py"),
        (["nowhere.py"], "there is no script 'nowhere.py'"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(arguments)
    assert str(caught.value) == message


def test_mistakes_end_with_one_line() -> None:
    done = python("-m", "tilewright.compat", "nowhere.py")
    assert (done.returncode, done.stderr) == (1, "error: there is no script 'nowhere.py'\n")


def test_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "raises.py"
    text = "import tvm\ntvm.tir.Schedule(tvm.IRModule({})).get_block('B', 'main')\n"
    script.write_text(text, encoding="utf-8")
    before = list(sys.argv), list(sys.path)
    with pytest.raises((ScheduleError, ValueError)):
        run([str(script), "more"])
    assert (sys.argv, sys.path) == before
