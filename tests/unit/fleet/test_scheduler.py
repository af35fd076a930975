"""The scheduler alone: who gets what, what a lost device held, who is set aside."""

from __future__ import annotations

import pytest

from tilewright.fleet.scheduler import Assignment, FleetDevice, FleetLimits, FleetScheduler, GivenUp

UNCALIBRATED = FleetLimits(calibrate_every=0)


def fleet(*devices: str, limits: FleetLimits = UNCALIBRATED) -> FleetScheduler:
    """Devices "node/number", all of the kind "cpu"."""
    scheduler = FleetScheduler(limits)
    for name in devices:
        scheduler.add(FleetDevice(name, name.partition("/")[0], "cpu"))
    return scheduler


def test_each_device_has_one_task_at_a_time() -> None:
    scheduler = fleet("a/0", "b/0")
    for task in range(3):
        scheduler.submit(task, "cpu")
    assert scheduler.ask() == [Assignment("a/0", 0), Assignment("b/0", 1)]
    assert scheduler.ask() == []
    scheduler.finish("b/0")
    assert scheduler.ask() == [Assignment("b/0", 2)]


def test_tasks_go_to_devices_of_their_kind() -> None:
    scheduler = fleet("a/0")
    scheduler.add(FleetDevice("g/0", "g", "gpu"))
    scheduler.submit(0, "gpu")
    scheduler.submit(1, "gpu")
    assert scheduler.ask() == [Assignment("g/0", 0)]
    assert scheduler.given_up() == []


def test_a_task_that_nobody_can_do_is_given_up() -> None:
    scheduler = fleet("a/0")
    scheduler.submit(7, "gpu")
    assert scheduler.ask(more_may_come=True) == []
    assert scheduler.given_up() == []
    scheduler.ask()
    assert scheduler.given_up() == [GivenUp(7, "no node runs gpu; there is cpu")]


def test_what_a_lost_device_held_goes_to_another_machine() -> None:
    scheduler = fleet("a/0", "a/1", "b/0")
    for task in range(3):
        scheduler.submit(task, "cpu")
    scheduler.ask()
    scheduler.lose("a/0")
    scheduler.finish("a/1")  # it is on the machine that lost the task
    assert scheduler.ask() == []
    scheduler.finish("b/0")
    assert scheduler.ask() == [Assignment("b/0", 0)]


def test_it_goes_to_the_same_machine_where_there_is_no_other() -> None:
    scheduler = fleet("a/0", "a/1")
    scheduler.submit(0, "cpu")
    scheduler.ask()
    scheduler.lose("a/0")
    assert scheduler.ask() == [Assignment("a/1", 0)]


def test_a_machine_is_lost_with_all_its_devices() -> None:
    scheduler = fleet("a/0", "a/1", "b/0")
    for task in range(2):
        scheduler.submit(task, "cpu")
    scheduler.ask()
    scheduler.lose_node("a")
    assert scheduler.ask() == [Assignment("b/0", 0)]
    scheduler.finish("b/0")
    assert scheduler.ask() == [Assignment("b/0", 1)]


def test_a_task_that_takes_devices_down_is_not_tried_for_ever() -> None:
    scheduler = fleet("a/0", "b/0", "c/0", limits=FleetLimits(attempts=2, calibrate_every=0))
    scheduler.submit(5, "cpu")
    for name in ("a/0", "b/0"):
        assert scheduler.ask() == [Assignment(name, 5)]
        scheduler.lose(name)
    assert scheduler.ask() == []
    text = "2 devices were lost while they worked on it (on a, b)"
    assert scheduler.given_up() == [GivenUp(5, text, is_lost=True)]


def test_tasks_that_are_left_say_that_their_devices_are_gone() -> None:
    scheduler = fleet("a/0")
    scheduler.submit(0, "cpu")
    scheduler.lose("a/0")
    scheduler.ask()
    assert scheduler.given_up() == [GivenUp(0, "no node that runs cpu is left")]


def test_peers_are_calibrated_before_their_first_task() -> None:
    scheduler = fleet("a/0", "b/0", "c/0", limits=FleetLimits())
    scheduler.submit(0, "cpu")
    asked = scheduler.ask()
    assert {each.device for each in asked} == {"a/0", "b/0", "c/0"}
    assert all(each.task is None for each in asked)
    scheduler.calibrated("a/0", 1e-3)
    scheduler.calibrated("b/0", 1.1e-3)
    assert scheduler.ask() == []  # of two that disagree nobody knows which is wrong
    scheduler.calibrated("c/0", 1.05e-3)
    assert [each.task for each in scheduler.ask()] == [0]
    assert scheduler.notes() == []


@pytest.mark.parametrize("secs", [1.25e-3, 0.75e-3])
def test_a_device_that_is_off_its_peers_is_set_aside(secs: float) -> None:
    scheduler = fleet("a/0", "b/0", "c/0", limits=FleetLimits())
    scheduler.ask()
    for name, found in {"a/0": 1e-3, "b/0": 1e-3, "c/0": secs}.items():
        scheduler.calibrated(name, found)
    for task in range(3):
        scheduler.submit(task, "cpu")
    assert {each.device for each in scheduler.ask()} == {"a/0", "b/0"}
    assert scheduler.notes() == [
        f"node c is set aside: it runs the calibration kernel in {secs * 1e3:.3g} ms, its 2 peers "
        "in 1 ms"
    ]


def test_two_devices_are_not_calibrated() -> None:
    scheduler = fleet("a/0", "b/0", limits=FleetLimits())
    scheduler.submit(0, "cpu")
    assert scheduler.ask() == [Assignment("a/0", 0)]


def test_calibrated_devices_work_though_their_peers_are_lost() -> None:
    scheduler = fleet("a/0", "b/0", "c/0", limits=FleetLimits())
    scheduler.submit(0, "cpu")
    scheduler.ask()
    scheduler.calibrated("a/0", 1e-3)
    scheduler.lose("b/0")
    assert scheduler.ask() == [Assignment("a/0", 0)]


def test_devices_are_calibrated_again_after_some_tasks() -> None:
    scheduler = fleet("a/0", "b/0", "c/0", limits=FleetLimits(calibrate_every=2))
    for each in scheduler.ask():
        scheduler.calibrated(each.device, 1e-3)
    for task in range(6):
        scheduler.submit(task, "cpu")
    for _ in range(2):
        for each in scheduler.ask():
            assert each.task is not None
            scheduler.finish(each.device)
    assert [each.task for each in scheduler.ask()] == [None] * 3


def test_late_words_of_lost_devices_are_ignored() -> None:
    scheduler = fleet("a/0")
    scheduler.lose("a/0")
    scheduler.finish("a/0")
    scheduler.calibrated("a/0", 1.0)
    scheduler.lose("a/0")
    assert scheduler.ask() == []
