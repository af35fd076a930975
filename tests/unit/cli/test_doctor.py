from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli import app, doctor, main
from tilewright.cli.doctor import Finding
from tilewright.codegen.host.code_store import CodeStore, open_store
from tilewright.config import settings
from tilewright.errors import DeviceError
from tilewright.target import Target
from tilewright.testing import fake_gpu
from tilewright.version import __version__


@pytest.fixture(autouse=True)
def _fresh_settings() -> Iterator[None]:
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"tilewright {__version__}\n"


def test_doctor_says_what_works() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    cpu = Target("llvm").cpu
    assert lines[0] == f"Tilewright {__version__}"
    assert lines[-1] == "The CPU path works."
    assert _line(lines, "llvm").endswith(f"CPU {cpu.name}")
    smoke_test = _line(lines, "compile and run")
    assert smoke_test.endswith("a kernel was compiled, run in parallel, and gave 42")
    assert f"{cpu.vector_bits}-bit; " in _line(lines, "vector units")
    assert _line(lines, "cores").endswith(
        f"{cpu.physical_cores} physical, {cpu.logical_cores} logical usable by this process"
    )


def _line(lines: list[str], name: str) -> str:
    (found,) = [line for line in lines if re.match(rf"ok +{re.escape(name)}  ", line)]
    return found


def test_doctor_as_json() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert report["version"] == __version__
    assert report["cpu_path_works"] is True
    by_name = {check["name"]: check for check in report["checks"]}
    assert by_name["compile and run"]["status"] == "ok"
    assert set(by_name["python"]) == {"name", "status", "detail", "remedy"}


def test_a_broken_part_fails_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Finding("llvm", "broken", "no executable memory", "ask your administrator")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: broken,))
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "broken  llvm  no executable memory" in result.output
    assert "-> ask your administrator" in result.output
    assert "The CPU path does not work; see `broken` above." in result.output


def test_wrong_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_run_add", lambda left, right: {left * right})
    finding = doctor.check_build()
    assert (finding.status, finding.detail) == ("broken", "40 + 2 gave 80")


def test_bad_settings_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "none")
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "TILEWRIGHT_NUM_THREADS='none': expected a whole number of at least 1" in result.output


def test_thread_count_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "7")
    assert doctor.check_settings() == Finding("threads", "ok", "7 (TILEWRIGHT_NUM_THREADS)")


def test_kept_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = "none: every process compiles its own; set TILEWRIGHT_CACHE_DIR to keep code"
    monkeypatch.setattr(doctor, "code_store", lambda: None)
    assert doctor.check_kept_code() == Finding("kept code", "ok", expected)
    store = CodeStore(tmp_path)
    store.put("0", bytes(1 << 20), b"")
    monkeypatch.setattr(doctor, "code_store", lambda: store)
    found = f"entries: 1; 1.0 of 256 MiB in {tmp_path}"
    assert doctor.check_kept_code() == Finding("kept code", "ok", found)
    tmp_path.chmod(0o777)
    monkeypatch.setattr(doctor, "code_store", lambda: open_store(tmp_path))
    assert doctor.check_kept_code().status == "broken"


def test_no_compiler_is_no_catastrophe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    finding = doctor.check_c_compiler()
    assert finding.status == "missing"
    assert finding.detail == "none found; building and running needs none"


def test_gpus() -> None:
    with fake_gpu.installed(fake_gpu.FakeDriver()):
        assert doctor.check_gpu() == Finding("GPU", "ok", "NVIDIA H200, sm_90a, 1 GiB")
    missing = DeviceError("the package cuda-bindings is missing; `pip install it`")
    with fake_gpu.installed(missing):
        assert doctor.check_gpu() == Finding(
            "GPU",
            "missing",
            "programs run on CPUs only: the package cuda-bindings is missing; `pip install it`",
        )


def test_missing_package_names_its_extra() -> None:
    check = doctor._package("no-such-thing", "no_such_thing.part", "tune", "needed by some")
    assert check() == Finding(
        "no-such-thing", "missing", "needed by some", "pip install 'tilewright[tune]'"
    )


def test_nothing_is_promised_that_is_not_there() -> None:
    """Every package that doctor recommends is imported somewhere, by its extra's name."""
    output = CliRunner().invoke(app, ["doctor"]).output
    assert "onnx" not in output
    sources = Path(doctor.__file__).parents[1].rglob("*.py")
    code = "".join(path.read_text() for path in sources if path.name != "doctor.py")
    for name in re.findall(r"^(?:ok|missing) +(torch|lightgbm|xgboost) ", output, re.M):
        assert f'import_module("{name}")' in code


def test_a_mistake_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*, as_json: bool) -> int:
        return len(Target("nonsense").keys)

    monkeypatch.setattr(doctor, "run", fail)
    monkeypatch.setattr("sys.argv", ["tilewright", "doctor"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "error: unknown target kind 'nonsense'; known: c, cuda, llvm, vta\n"
    )
