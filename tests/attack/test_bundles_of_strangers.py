"""A bundle may be anybody's: it is opened, or refused in one line; nothing in it runs unchecked."""

from __future__ import annotations

import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tilewright.database import MemoryDatabase
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.records import Workload
from tilewright.sharing import bundle_of, open_bundle, opening, read_bundle
from tilewright.sharing.bundle import MOST_BYTES, Bundle
from tilewright.sharing.bundle_task import ReadProgram, ReadRequest, perform
from tilewright.testing.conformance.database import a_record, matmul

WHOLE = bundle_of(a_record(Workload(matmul(16, 16, 16)), 1.0))
HEAD = '@T.prim_func\ndef main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):\n'
MemoryDatabase().commit_tuning_record(a_record(Workload(matmul(8, 8, 8)), 1.0))


def document(**changes: Any) -> dict[str, Any]:
    """A bundle with changes, and the digest that goes with them: anybody can compute it."""
    made: dict[str, Any] = {**msgspec.structs.asdict(WHOLE), **changes}
    fields = {name: made[name] for name in Bundle.__struct_fields__ if name in made}
    return {**made, "digest": Bundle(**fields).content_digest()}


def refusal(path: Path) -> str:
    with pytest.raises(DatabaseError) as failure:
        read_bundle(path)
    assert "\n" not in str(failure.value)
    return str(failure.value)


# --- the file -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Input data was truncated"),
        (pickle.dumps({"tilewright_bundle": 1}), "JSON is malformed"),
        (b"PK\x03\x04 a zip file", "JSON is malformed"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", 'expected "tilewright_bundle": 1, got None'),
        (b'{"tilewright_bundle": 2}', 'expected "tilewright_bundle": 1, got 2'),
        (b'{"tilewright_bundle": "' + b"x" * 99 + b'"}', "got 'xxxxxx"),
        (b'{"tilewright_bundle": 1}', "missing required field `made_by`"),
    ],
)
def test_files_that_are_no_bundles(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.twb"
    path.write_bytes(content)
    text = refusal(path)
    assert text.startswith(f"{path} is not a bundle that can be opened: ")
    assert reason in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code": "import os"}, "unknown field `code`"),
        ({"program": "x" * (5 << 20)}, "length <= 4194304 - at `$.program`"),
        ({"program": 7}, "Expected `str`, got `int` - at `$.program`"),
        ({"trace": [[None] * 20_000, []]}, "length <= 10000 - at `$.trace[0]`"),
        ({"trace": [[]]}, "length 2"),
        ({"run_secs": [0.0]}, "> 0.0 - at `$.run_secs[0]`"),
        ({"run_secs": [1e300]}, "<= 10000000000.0"),
        ({"error_msg": "x" * 20_000}, "length <= 10000 - at `$.error_msg`"),
        ({"digest": "0" * 32}, "it was changed after it was written"),
    ],
)
def test_contents_that_do_not_fit(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.twb"
    path.write_text(json.dumps({**document(), **changes}))
    assert reason in refusal(path)


def test_files_without_end(tmp_path: Path) -> None:
    large = tmp_path / "large.twb"
    with large.open("wb") as file:
        file.truncate(100 * MOST_BYTES)
    assert refusal(large) == f"{large} has more than {MOST_BYTES:,} bytes; no bundle has"
    assert refusal(Path("/dev/zero")) == "/dev/zero is not a file"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refusal(pipe) == f"{pipe} is not a file"
    assert refusal(tmp_path / "none") == f"cannot read {tmp_path}/none: No such file or directory"


def test_changed_bytes(tmp_path: Path, attack_seeds: list[int]) -> None:
    whole, path = msgspec.json.encode(WHOLE), tmp_path / "x.twb"
    for seed in attack_seeds:
        rng, content = random.Random(seed), bytearray(whole)
        for _ in range(rng.randrange(1, 5)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
        if content != whole:
            assert refusal(path)


# --- the program and its schedule ---------------------------------------------------------------


def complaint(program: str, trace: list[Any] | None = None) -> str:
    """What the worker finds wrong."""
    request = ReadRequest(program, [[], []] if trace is None else trace)
    reply = perform(msgspec.msgpack.encode(request))
    return msgspec.msgpack.decode(reply, type=ReadProgram).complaint


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('    T.evaluate(T.call_extern("int32", "system", A.data))\n', "calls functions"),
        ('    T.evaluate(T.call_packed("os.system", "id"))\n', "calls functions"),
        (
            "    for i in range(16):\n        B[A[i]] = 1\n",
            "writes to places that it",
        ),
        ("    open('/etc/passwd')\n", "open"),
        ("    __import__('os').system('id')\n", "__import__"),
        ("    B[().__class__.__base__] = 1\n", "__class__"),
        ("    B[99] = 1\n    import os\n", ""),
        ("    eval('1')\n", "eval"),
    ],
)
def test_programs_that_do_more_than_compute(body: str, reason: str) -> None:
    found = complaint(HEAD + body)
    assert found
    assert reason in found


@pytest.mark.parametrize("text", ["", "import os\nos.system('id')", "x = 1", "\0"])
def test_texts_that_are_no_programs(text: str) -> None:
    assert complaint(text)


TRACES: list[list[Any]] = [
    [[["NoSuchStep", [], [], []]], []],
    [[["GetBlock", [], ["nowhere", "main"], ["b0"]]], []],
    [[["GetBlock", ["b9"], ["C", "main"], ["b0"]]], []],
    [[["GetBlock"]], []],
    [[None], []],
    [[], [[99, [1, 2]]]],
    [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["UnsafeSetDType", ["b0"], [0, "int8"], []],
        ],
        [],
    ],
]


@pytest.mark.parametrize("trace", TRACES)
def test_traces_that_do_not_fit(trace: list[Any]) -> None:
    assert complaint(WHOLE.program, trace)


def test_a_sound_one_has_no_complaint() -> None:
    assert complaint(WHOLE.program, list(WHOLE.trace)) == ""


# --- with limits --------------------------------------------------------------------------------


def test_a_program_that_eats_memory_or_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.twb"
    hungry = HEAD.replace("(16,)", "(len([0] * 10**12),)", 1) + "    B[0] = 1\n"
    path.write_text(json.dumps(document(program=hungry)))
    with pytest.raises(StoredDataError) as failure:
        open_bundle(path)
    assert str(failure.value).startswith(f"{path}: ")
    monkeypatch.setattr(opening, "READ_SECONDS", 1.0)
    slow = HEAD.replace("(16,)", "(sum([i for i in range(10**12)]),)", 1) + "    B[0] = 1\n"
    path.write_text(json.dumps(document(program=slow)))
    with pytest.raises(StoredDataError) as failure:
        open_bundle(path)
    assert "\n" not in str(failure.value)
