"""The import hook: TVM's paths lead to ours while it is active, and only then."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.compat import tvm_imports
from tilewright.compat.differences import MISSING
from tilewright.compat.finder import _object_at, sources_of
from tilewright.compat.names import MODULES, NAMES
from tilewright.meta_schedule.module_paths import FILES


@pytest.fixture
def hook() -> Iterator[None]:
    with tvm_imports():
        yield


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("path", MODULES)
def test_every_module_of_the_table_exists(path: str) -> None:
    module = importlib.import_module(path)
    for name in dir(module):
        if not name.startswith("__"):
            getattr(module, name)
    for source in MODULES[path]:
        importlib.import_module(source)


@pytest.mark.usefixtures("hook")
def test_files_of_the_tuner_are_found_by_the_same_paths() -> None:
    paths = [f"{family}.{file}" for family, files in FILES.items() for file in files]
    for path in (*paths, "testing.dummy_object", "testing.te_workload", "logging", "utils"):
        module = importlib.import_module(f"tvm.meta_schedule.{path}")
        assert dir(module), path
    runner = importlib.import_module("tvm.meta_schedule.runner.local_runner")
    assert runner.LocalRunner is tw.meta_schedule.runner.LocalRunner


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("path", NAMES)
def test_every_name_of_the_table_exists(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(module), name) is _object_at(NAMES[path])


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize("path", MISSING)
def test_what_is_said_to_be_missing_is(path: str) -> None:
    module, _, name = path.rpartition(".")
    if sources_of(path) is None:  # `tvm.contrib` itself exists, for the little that is in it
        with pytest.raises(ImportError, match=f"tilewright has no {path!r}"):
            importlib.import_module(path)
        if sources_of(module) is not None:
            with pytest.raises(AttributeError, match=f"tilewright has no {path!r}"):
                getattr(importlib.import_module(module), name)


@pytest.mark.usefixtures("hook")
def test_names_are_ours_and_not_copies() -> None:
    tvm = importlib.import_module("tvm")
    assert tvm.tir.Schedule is tw.tir.Schedule
    assert tvm.TVMError is tw.TilewrightError is tw.TVMError
    assert importlib.import_module("tvm.script.tir").prim_func is tw.script.tir.prim_func
    assert tvm.__version__ == "0.14.0"


@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "from tvm import relay",
            "tilewright has no 'tvm.relay': there is no Relay and no Relax; models come from ONNX "
            "and PyTorch, see ms.extract_tasks (see docs/coming_from_tvm.md)",
        ),
        (
            "import tvm.contrib.cblas",
            "tilewright has no 'tvm.contrib.cblas': libraries that TVM calls are not bound here "
            "(see docs/coming_from_tvm.md)",
        ),
        (
            "from tvm.tir import Nonsense",
            "tilewright has no 'tvm.tir.Nonsense'; docs/coming_from_tvm.md lists what differs",
        ),
    ],
)
def test_imports_of_what_we_do_not_have_say_so(statement: str, message: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert str(caught.value) == message


@pytest.mark.usefixtures("hook")
def test_a_misspelt_name_gets_a_hint() -> None:
    tir = importlib.import_module("tvm.tir")
    with pytest.raises(AttributeError, match=r"tilewright has no 'tvm.tir.Schedul'; did you mean"):
        tir.Schedul


@pytest.mark.usefixtures("hook")
def test_star_imports() -> None:
    names: dict[str, object] = {}
    exec("from tvm.tir.tensor_intrin.x86 import *", names)
    assert names["VNNI_DOT_16x4_INTRIN"] == "dot_16x4_vnni"


def test_an_installed_tvm_is_neither_needed_nor_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "__init__.py").write_text("mine = 1\n", encoding="utf-8")
    (tmp_path / "tvm" / "relay.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = importlib.import_module("tvm")
    assert theirs.mine == 1
    with tvm_imports():
        assert importlib.import_module("tvm").tir is not None
        with pytest.raises(ImportError, match="tilewright has no"):
            importlib.import_module("tvm.relay")
    assert importlib.import_module("tvm") is theirs
    del sys.modules["tvm"]


def test_the_hook_ends_with_its_scope() -> None:
    before = list(sys.meta_path)
    with pytest.raises(AttributeError), tvm_imports():
        importlib.import_module("tvm.tir").Nonsense
    assert sys.meta_path == before
    assert not any(name.partition(".")[0] == "tvm" for name in sys.modules)


def test_printed_programs_say_what_to_import() -> None:
    func = tw.te.create_prim_func([tw.te.placeholder((4,), name="A")])
    sch = tw.tir.Schedule(func)
    assert str(func).startswith("# from tilewright.script import tir as T\n")
    with tvm_imports():
        assert str(func).startswith("# from tvm.script import tir as T\n")
        assert str(sch.mod).startswith("# from tvm.script import ir as I\n")
        assert str(sch.trace).startswith("# from tvm import tir\n")
    assert str(sch.trace).startswith("# from tilewright import tir\n")


def test_helpers_of_tests_are_found_after_changing_the_import() -> None:
    for name in ("assert_allclose", "requires_llvm", "parameter", "main"):
        assert name in dir(tw.testing)
        assert callable(getattr(tw.testing, name))
    with pytest.raises(AttributeError, match="has no attribute 'sun'"):
        _ = tw.testing.sun
