"""Compiled code that is kept in a folder: what is not ours, or not whole, is not loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright import driver
from tilewright.codegen.host.code_store import CodeStore, open_store
from tilewright.codegen.llvm.backend import LLVMBackend
from tilewright.codegen.llvm.compiler import host_machine
from tilewright.errors import ConfigError
from tilewright.ir import IRModule, PrimFunc, as_module
from tilewright.lowering import PassContext
from tilewright.native.platform import is_linux_x86_64
from tilewright.runtime.extern_symbols import runtime_symbols
from tilewright.script import from_source
from tilewright.target import Target, register_intrin_rule
from tilewright.target.intrin_rules import remove_intrin_rule

pytestmark = pytest.mark.skipif(
    not is_linux_x86_64(host_machine().triple), reason="our linker knows x86-64 Linux only"
)

TEXT = """
@T.prim_func
def twice(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):
    for i in T.parallel(64):
        b[i] = a[i] * T.float32({factor})
"""
KEY = "0" * 64


def _module(factor: int = 2) -> IRModule:
    program = from_source(TEXT.format(factor=factor))
    assert isinstance(program, PrimFunc)
    return as_module(program)


@pytest.fixture
def store(tmp_path: Path) -> CodeStore:
    """A store with one entry."""
    store = open_store(tmp_path / "code")
    made = driver.build(_module())
    assert made.artifact is not None
    LLVMBackend().keep(store, KEY, made.info, made.artifact)
    assert len(store.entries()) == 1
    return store


def _recalled(store: CodeStore, key: str = KEY) -> object:
    return LLVMBackend().recall(store, key, runtime_symbols)


def test_a_kept_module_computes_what_it_did(store: CodeStore) -> None:
    kept = LLVMBackend().recall(store, KEY, runtime_symbols)
    assert kept is not None
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    module = driver._recalled(*kept, lambda: driver.build(_module()))
    module(a, b)
    np.testing.assert_array_equal(b, a * 2)
    assert "parallel" in module.get_source("script")
    assert module.artifact is not None


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.parametrize(
    "damage",
    [_cut, _flip, lambda data: data[:-1], lambda data: b"", lambda data: data + b"x"],
    ids=["half", "one bit", "last byte", "empty", "longer"],
)
def test_a_damaged_entry_is_no_entry(store: CodeStore, damage: Callable[[bytes], bytes]) -> None:
    path = store.path(KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert _recalled(store) is None


def test_an_entry_under_another_name_is_no_entry(store: CodeStore) -> None:
    other = "1" * 64
    store.path(KEY).rename(store.path(other))
    assert _recalled(store, other) is None


def test_links_and_folders_are_no_entries(store: CodeStore, tmp_path: Path) -> None:
    path = store.path(KEY)
    path.rename(tmp_path / "elsewhere.so")
    path.symlink_to(tmp_path / "elsewhere.so")
    assert _recalled(store) is None
    path.unlink()
    path.mkdir()
    assert _recalled(store) is None


def test_the_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert open_store(folder).folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(ConfigError) as caught:
        open_store(folder)
    assert str(caught.value) == (
        f"TILEWRIGHT_CACHE_DIR='{folder}': others may write to the folder; run `chmod 700 {folder}`"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(ConfigError, match="the folder belongs to user 12345"):
        open_store(tmp_path)


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    store = CodeStore(tmp_path, limit_bytes=4000)
    for number in range(3):
        store.put(str(number), bytes(1000), b"")
        os.utime(store.path(str(number)), (number, number))
    assert store.description("0") == b""  # and now it was used last
    store.put("3", bytes(1000), b"")
    assert {path.stem for path in store.entries()} == {"0", "2", "3"}
    assert store.size_bytes() <= 4000
    store.clear()
    assert store.entries() == []


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_the_entry(tmp_path: Path) -> None:
    CodeStore(tmp_path / "missing").put(KEY, b"library", b"description")


def test_keys_differ_where_code_differs() -> None:
    module, target = _module(), Target("llvm")
    keys = [driver.build_key(module, target), driver.build_key(_module(3), target)]
    keys.append(driver.build_key(module, Target("llvm -mcpu=haswell")))
    with PassContext(config={"tir.disable_vectorize": True}):
        keys.append(driver.build_key(module, target))
    assert None not in keys
    assert len(set(keys)) == 4
    assert driver.build_key(_module(), Target("llvm")) == keys[0]


def test_what_has_no_text_has_no_key() -> None:
    module, target = _module(), Target("llvm")
    with PassContext(config={"tir.add_lower_pass": [(0, lambda func, mod, ctx: func)]}):
        assert driver.build_key(module, target) is None
    register_intrin_rule("llvm", "tir.my_operator", lambda call: call)
    try:
        assert driver.build_key(module, target) is None
    finally:
        remove_intrin_rule("llvm", "tir.my_operator")


_CHILD = f"""
import sys
import numpy as np
import tilewright as tw
from tilewright.runtime.extern_symbols import runtime_symbols
from tilewright.script import from_source

kernel = tw.build(from_source({TEXT.format(factor=2)!r}))
a, b = np.ones(64, "float32"), np.zeros(64, "float32")
kernel(a, b)
assert (b == 2).all()
print(*(name in sys.modules for name in ("llvmlite", "tilewright.codegen.llvm.module")))
"""


def _run(folder: Path) -> str:
    environ = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHILD],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_does_not_need_the_compiler(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    assert _run(folder) == "True True"
    assert _run(folder) == "False False"
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    assert _run(folder) == "True True"
    assert _run(folder) == "False False"
