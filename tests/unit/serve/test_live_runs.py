"""Event logs: runs and nodes as they grow, and files that are cut, foreign or begun again."""

from __future__ import annotations

import json
from pathlib import Path

from tilewright.serve.live_runs import FileEvents


def _line(time: float, event: str, **facts: object) -> str:
    return json.dumps({"time": time, "node": "n1", "pid": 1, "load": 0.5, "event": event, **facts})


STARTED = _line(0, "tuning_started", run=3, max_trials=8, tasks=["a", "b"])
SEARCH = _line(1, "phase_changed", task_id=1, phase="search", candidates=0)
BUILD = _line(3, "phase_changed", task_id=1, phase="build", candidates=4)
MEASURED = _line(6, "round_measured", task_id=1, trials=4, elapsed_secs=6.0)
ENDED = _line(7, "tuning_finished", reason="done", elapsed_secs=7.0)


def _write(path: Path, *lines: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_a_run_from_its_start_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = FileEvents(path)
    assert not reader.look()  # there is no file yet
    _write(path, STARTED, SEARCH)
    assert reader.look()
    (run,) = reader.state.going_on
    assert (run.number, run.max_trials, run.doing) == (3, 8, "searching schedules of b")
    _write(path, BUILD)
    assert reader.look()
    assert run.doing == "building 4 candidates of b"
    _write(path, MEASURED, ENDED)
    assert reader.look()
    assert not reader.look()
    assert reader.state.going_on == []
    node = reader.state.nodes["n1"]
    assert node.seconds == {"search": 2, "build": 3}
    assert (node.trials, node.load, node.last) == (4, 0.5, 7)


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(STARTED[:20], encoding="utf-8")
    reader = FileEvents(path)
    assert not reader.look()
    _write(path, STARTED[20:])
    assert reader.look()
    assert len(reader.state.going_on) == 1


def test_lines_of_others_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path, "not JSON", "[1]", '{"event": 3, "pid": "x"}', "{}", '{"time": null}',
           _line(0, "something_new", node="n2"), STARTED)  # fmt: skip
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    reader = FileEvents(path)
    assert reader.look()
    assert len(reader.state.going_on) == 1
    assert "n2" in reader.state.nodes


def test_a_file_that_was_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path, STARTED, SEARCH, BUILD)
    reader = FileEvents(path)
    reader.look()
    path.unlink()
    _write(path, _line(0, "tuning_started", run=4, tasks=["c"]))
    assert reader.look()
    assert [run.number for run in reader.state.going_on] == [4]


def _seen(time: float, node: str, phase: str, done: int, busy_secs: float) -> str:
    facts = {"node": node, "phase": phase, "devices": 2, "done": done, "busy_secs": busy_secs}
    return json.dumps({"time": time, "pid": 1, "event": "node_seen", **facts})


def test_nodes_of_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write(path, STARTED, _seen(10, "far", "build", 9, 3), _seen(10, "far", "run", 8, 4))
    reader = FileEvents(path)
    reader.look()
    node = reader.state.nodes["far"]
    assert (node.load, node.trials, node.seconds) == (None, 8, {"build": 3, "run": 4})
    assert node.devices == {"build": 2, "run": 2}
    _write(path, _seen(20, "far", "run", 20, 19))
    reader.look()
    assert (node.load, node.trials) == (0.75, 20)
    _write(path, _seen(30, "far", "run", 2, 5))  # another run began to count
    reader.look()
    assert (node.load, node.trials) == (0.25, 2)
    assert [run.node for run in reader.state.going_on] == ["n1"]
