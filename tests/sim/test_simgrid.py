"""Virtual time against what SimGrid 3.32 gave for the same graphs; ``benchmarks.sim_simgrid`` runs SimGrid itself."""

from __future__ import annotations

import pytest

from benchmarks.sim_simgrid import here, random_graph

#: Seconds of the graphs of seed 0 on.
ONE_OTHER_NODE = [
    36.86,
    37.64,
    136.6,
    72.58,
    76.76,
    32.57,
    129.43,
    81.24,
    63.14,
    43.86,
    52.52,
    30.49,
    73.55,
    40.89,
    39.28,
    38.36,
    80.93,
    55.66,
    71.01,
    75.85,
]
SEVERAL_NODES = [
    65.25,
    75.31,
    187.64,
    127.36,
    147.48,
    52.21,
    158.54,
    125.62,
    105.95,
    89.89,
    60.28,
    62.95,
    180.27,
    69.31,
    58.41,
    93.39,
    138.57,
    112.47,
    110.01,
    83.08,
]


@pytest.mark.parametrize("seed", range(20))
def test_flows_of_one_node_each_take_the_same_time(seed: int) -> None:
    assert here(random_graph(seed, most_far=1)) == pytest.approx(ONE_OTHER_NODE[seed], abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_flows_of_several_nodes_take_the_same_time(seed: int) -> None:
    assert here(random_graph(seed)) == pytest.approx(SEVERAL_NODES[seed], abs=0.01)
