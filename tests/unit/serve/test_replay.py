"""Replays in the worker: answers, refusals, limits."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import open_database
from tilewright.errors import ServeError
from tilewright.ir.json import save_json
from tilewright.records import TuningRecord
from tilewright.schedule import Schedule
from tilewright.serve.replay import ReplayCall, ReplayService, answer_of
from tilewright.space.base import Postproc
from tilewright.space.generators.default_space import DefaultSpace
from tilewright.testing.conformance.database import tiled


@pytest.fixture
def record(filled: Path) -> TuningRecord:
    return open_database(filled, read_only=True).get_all_tuning_records()[0]


def _call(record: TuningRecord, decided: dict[int, int | list[int]]) -> ReplayCall:
    trace = tiled(record.workload.mod).as_json()
    return ReplayCall(save_json(record.workload.mod), trace, str(record.target), decided)


def test_as_it_was_recorded(record: TuningRecord) -> None:
    answer = answer_of(_call(record, {}))
    assert answer.refusal == answer.replayed.error == ""
    assert answer.replayed.steps[-1].text.startswith("sch.parallel(")
    assert answer.estimate.endswith("s")


def test_other_decisions_are_post_processed_afresh(record: TuningRecord) -> None:
    answer = answer_of(_call(record, {2: [2, 8]}))
    assert answer.refusal == answer.replayed.error == ""
    texts = [step.text for step in answer.replayed.steps]
    assert "decision=[2, 8]" in texts[2]
    assert "sch.enter_postproc()" in texts
    assert not any(text.startswith("sch.parallel(") for text in texts)  # that of the record


def test_the_post_processor_that_refuses(
    record: TuningRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NeverGoodEnough(Postproc):
        def apply(self, sch: Schedule) -> bool:
            return False

    monkeypatch.setattr(DefaultSpace, "postprocs", [NeverGoodEnough()])
    assert answer_of(_call(record, {2: [2, 8]})).refusal == "refused by NeverGoodEnough"
    assert answer_of(_call(record, {})).refusal == ""  # it was accepted when it was made


def test_over_the_wire(visitor: Any) -> None:
    task = visitor.get("/api/state").json()["tasks"][0]
    answer = visitor.post("/api/replay", {"record": task["record"], "decisions": {"2": [16, 1]}})
    assert answer.status == 200
    assert "decision=[16, 1]" in answer.json()["replayed"]["steps"][2]["text"]
    wrong = visitor.post("/api/replay", {"record": task["record"], "decisions": {"2": [1]}})
    assert wrong.json()["replayed"]["error"] == (
        "sample_perfect_tile: the decision [1] is not a list of 2 positive factors"
    )


@pytest.mark.parametrize(
    ("request_body", "status", "said"),
    [
        ({}, 400, "this is no replay: Object missing required field `record`"),
        ({"record": "x"}, 404, "'x' is not the name of a record"),
        ({"record": "ffffffff"}, 404, "no record in records.db starts with ffffffff"),
        (
            {"record": "ffff", "code": 1},
            400,
            "this is no replay: Object contains unknown field `code`",
        ),
        (
            {"record": "ffff", "decisions": {"1": "os"}},
            400,
            "this is no replay: Expected `int | array`, got `str` - at `$.decisions[...]`",
        ),
    ],
)
def test_bad_requests(visitor: Any, request_body: object, status: int, said: str) -> None:
    answer = visitor.post("/api/replay", request_body)
    assert (answer.status, answer.json()) == (status, {"error": said})


def test_only_json_is_read(visitor: Any) -> None:
    answer = visitor.ask("POST", "/api/replay", b"{}", {"content-type": "text/plain"})
    assert (answer.status, answer.json()) == (415, {"error": "a replay is asked for in JSON"})


def test_a_replay_that_takes_too_long(record: TuningRecord) -> None:
    service = ReplayService(longest_secs=0.0)
    with pytest.raises(ServeError, match=r"^the replay was ended after 0 seconds$"):
        service.replay(record, {})
    service.close()


def test_too_many_at_a_time(record: TuningRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    service, release = ReplayService(), threading.Event()
    busy = threading.Semaphore(0)

    def answer(*_: object) -> bytes:
        busy.release()
        release.wait()
        return b""

    monkeypatch.setattr(service, "_answer", answer)
    waiting = [threading.Thread(target=service.replay, args=(record, {})) for _ in range(4)]
    for thread in waiting:
        thread.start()
        busy.acquire()
    with pytest.raises(ServeError, match=r"^too many replays at a time; try again in a moment$"):
        service.replay(record, {})
    release.set()
    for thread in waiting:
        thread.join()
    assert service.replay(record, {}) == b""
