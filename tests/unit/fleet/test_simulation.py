"""The scheduler in simulated time: faults cost time, never a trial or a result."""

from __future__ import annotations

import pytest

from tilewright.fleet.simulation import Faults, RecordedTrial, SimulatedCluster, shuffled, simulate

RECORDED = [RecordedTrial(1.0 + 0.1 * number, 1e-3 * (number + 1)) for number in range(20)]
TUNERS = shuffled(RECORDED, 8, 400)


def test_without_faults_all_devices_are_busy() -> None:
    found = simulate(TUNERS, SimulatedCluster(nodes=16, devices_a_node=2))
    assert found.results == [[trial.run_secs for trial in trials] for trials in TUNERS]
    assert found.efficiency > 0.9
    assert found.notes == []


@pytest.mark.parametrize("seed", range(3))
def test_faults_change_no_result(seed: int) -> None:
    faults = Faults(lost_an_hour=2.0, slow_share=0.15)
    cluster = SimulatedCluster(nodes=16, devices_a_node=2, faults=faults, seed=seed)
    found = simulate(TUNERS, cluster)
    assert found.lost_nodes > 0
    assert found.given_up == 0
    assert found.results == [[trial.run_secs for trial in trials] for trials in TUNERS]


def test_slow_nodes_are_set_aside_and_named() -> None:
    cluster = SimulatedCluster(nodes=16, devices_a_node=2, faults=Faults(slow_share=0.2), seed=1)
    found = simulate(TUNERS, cluster)
    assert found.notes
    assert all("is set aside: it runs the calibration kernel in 1" in note for note in found.notes)


def test_a_cluster_that_is_lost_loses_trials_and_says_so() -> None:
    faults = Faults(lost_an_hour=1e4)
    found = simulate(TUNERS, SimulatedCluster(nodes=4, devices_a_node=1, faults=faults))
    assert found.lost_nodes == 4
    assert found.given_up > 0
