"""Simulated shuffles: from a file, from Python and from the command line; what is refused; and the picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

import exoshuffle as xs
from exoshuffle.cli.main import cli
from exoshuffle.engines.sim import (
    Cluster,
    Cost,
    Disk,
    Faults,
    Machine,
    ObjectStorage,
    Scenario,
    SimEngine,
    simulate,
)
from exoshuffle.engines.sim.objects.arguments import group_of
from exoshuffle.engines.sim.runs.plan_file import scenario as scenario_of
from exoshuffle.errors import InputError, OptionsError
from exoshuffle.futures.session import engine_in_use
from exoshuffle.strategies.library import strategy_names

GB = 10**9
CPU = {"map": 1.0, "merge": 0.5, "reduce": 2.0, "fold": 0.5}
MACHINE = Machine(4, 8 * GB, Disk(1e9, 1e9), 1e9)
PLAN = """
[cluster]
machine = "i4i.4xlarge"
num_nodes = 4
store_percent = 50

[storage]
latency_seconds = 0.05
connection_bytes_per_second = 50e6
connections = 16

[shuffle]
strategy = "simple"
total = "100GB"
num_splits = 100
num_partitions = 80
reads = "storage"
writes = "storage"

[cpu]
map = 2.0
reduce = 1.0

[prices]
list = "us-west-2-2022-11"
"""


def scenario(**changes) -> Scenario:
    options = {
        "cluster": Cluster.of(MACHINE, 3),
        "strategy": "simple",
        "total_bytes": 12 * GB,
        "num_splits": 24,
        "num_partitions": 12,
        "cpu": CPU,
        "reads": "nowhere",
        "writes": "nowhere",
    } | changes
    return Scenario(**options)


def test_cpus_alone_take_what_arithmetic_says():
    """24 maps of 0.5 GB on 12 CPUs, then 12 reduces of 1 GB; networks and disks are no bottleneck."""
    fast = Machine(4, 80 * GB, Disk(1e15, 1e15), 1e15)
    report = simulate(scenario(cluster=Cluster((fast,) * 3, task_seconds=0)))
    assert report.seconds == pytest.approx(2 * 0.5 + 2.0, abs=0.05)
    assert report.bound_seconds["CPU"] == pytest.approx(3.0)
    assert [(stage.name, stage.num_tasks) for stage in report.stages] == [
        ("map", 24),
        ("reduce", 12),
    ]


def test_networks_alone_take_what_arithmetic_says():
    """Two of three bytes come from another node: 8 GB through three interfaces of 0.1 GB/s."""
    slow = Machine(4, 80 * GB, None, 1e8)
    none = dict.fromkeys(CPU, 0.0)
    report = simulate(scenario(cluster=Cluster.of(slow, 3), cpu=none, num_partitions=240))
    assert report.num_bytes["between nodes"] == pytest.approx(8 * GB, rel=0.05)
    # One node has more maps than the others, so more is fetched from it.
    assert report.seconds == pytest.approx(8 / 0.3, rel=0.2)


@pytest.mark.parametrize("num_partitions", [6, 25, 240])
@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_rows_cross_between_nodes_once_whatever_the_partitions(strategy: str, num_partitions: int):
    machines = (MACHINE, MACHINE, Machine(8, 8 * GB, Disk(1e9, 1e9), 1e9))
    sizes = {"num_partitions": num_partitions, "round_size": 16, "merge_factor": 4}
    report = simulate(scenario(cluster=Cluster(machines), strategy=strategy, **sizes))
    # The third node has half of the CPUs, of the maps and of the partitions.
    shares = (0.25, 0.25, 0.5)
    crossing = 1 - sum(share**2 for share in shares)
    assert report.num_bytes["between nodes"] / (12 * GB) == pytest.approx(crossing, abs=0.06)


def test_pushing_takes_no_longer_than_pulling_and_merges_beside_maps():
    took = {}
    for strategy in ("simple", "push"):
        options = {"round_size": 24, "merge_factor": 6, "num_splits": 240, "num_partitions": 600}
        machine = Machine(4, 3 * GB, Disk(2e8, 2e8, request_seconds=1e-3), 1e9)
        report = simulate(
            scenario(
                cluster=Cluster.of(machine, 3), strategy=strategy, total_bytes=24 * GB, **options
            )
        )
        took[strategy] = report.seconds
    maps, merges, reduces = report.stages
    assert merges.name == "merge"
    assert merges.num_tasks == 3 * 240 // 6
    assert merges.start < maps.end / 4
    assert merges.end < maps.end * 1.1
    assert reduces.start >= merges.end
    assert took["push"] < 0.9 * took["simple"]


def test_disks_alone_take_what_arithmetic_says():
    disk = Disk(1e8, 1e8)
    machine = Machine(4, 80 * GB, disk, 1e15)
    none = dict.fromkeys(CPU, 0.0)
    report = simulate(
        scenario(cluster=Cluster.of(machine, 3), cpu=none, reads="disk", writes="disk")
    )
    assert report.num_bytes["spilled"] == 0
    # 12 GB are read and written by three disks.
    assert report.seconds == pytest.approx(2 * 12 / 0.3, rel=0.05)


def test_storage_takes_its_latency_and_its_connections():
    storage = ObjectStorage(latency_seconds=0.1, connection_bytes_per_second=1e7, connections=10)
    machine = Machine(1, 80 * GB, None, 1e15)
    none = dict.fromkeys(CPU, 0.0)
    report = simulate(
        scenario(
            cluster=Cluster((machine,), storage, task_seconds=0),
            cpu=none,
            reads="storage",
            total_bytes=GB,
            num_splits=1,
            num_partitions=1,
            read_request_bytes=10_000_000,
        )
    )
    # 100 requests by 10 connections, of 1 s and 0.1 s each.
    assert report.seconds == pytest.approx(11.0, rel=0.01)
    assert report.num_requests["reads of storage"] == 100


def test_writers_may_have_more_connections_and_write_while_they_compute():
    storage = ObjectStorage(connection_bytes_per_second=1e7, connections=10, write_connections=20)
    machine = Machine(1, 80 * GB, None, 1e15)
    report = simulate(
        scenario(
            cluster=Cluster((machine,), storage, task_seconds=0),
            cpu=dict.fromkeys(CPU, 0.0) | {"reduce": 4.0},
            reads="storage",
            writes="storage",
            total_bytes=GB,
            num_splits=1,
            num_partitions=1,
        )
    )
    # 10 s of reading; then 4 s of the reduce beside 5 s of writing.
    assert report.seconds == pytest.approx(15.0, rel=0.01)


@pytest.mark.parametrize("name", strategy_names())
def test_all_strategies_of_the_library_run_unchanged(name):
    sizes = {"round_size": 6, "merge_factor": 3, "total_bytes": 60 * GB, "num_partitions": 60}
    report = simulate(scenario(strategy=name, **sizes))
    assert report.strategy == name
    # Streaming has a round for every third map.
    stages = {stage.name: stage.num_tasks for stage in report.stages}
    assert stages["map"] == 24
    assert stages.get("reduce", stages.get("fold")) in {60, 60 * 8}
    assert report.num_bytes["spilled"] > 0
    assert report.seconds >= max(report.bound_seconds.values())
    assert all(share <= 1 + 1e-9 for share in report.utilisation.values())
    for line in report.lines:
        assert all(share <= 1.001 for share in line.shares)


def test_one_seed_is_one_report():
    assert simulate(scenario(), seed=3) == simulate(scenario(), seed=3)
    assert simulate(scenario(), seed=3).trace_hash != simulate(scenario(), seed=4).trace_hash


def test_columns_of_many_objects_are_looked_at_once():
    """4,000 x 2,000 slices within seconds: a look at each would be 8 million."""
    report = simulate(
        scenario(num_splits=4000, num_partitions=2000, cluster=Cluster.of(MACHINE, 10))
    )
    assert report.stages[1].num_tasks == 2000


def test_the_engine_in_use_stays(engine):
    kept = xs.put("kept")
    simulate(scenario())
    assert engine_in_use() is engine
    assert xs.get(kept) == "kept"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cpu": {"map": 1.0}}, r"no cost model for reduce, which the strategy simple runs"),
        ({"cpu": CPU | {"map": -1}}, "cpu of map is -1"),
        ({"strategy": "bubble"}, "bubble"),
        ({"num_splits": 0}, "num_splits is 0"),
        ({"reads": "tape"}, "reads is 'tape'"),
        ({"writes": "storage"}, "writes is storage, and the cluster has none"),
        (
            {"reads": "disk", "cluster": Cluster.of(Machine(1, GB), 1)},
            "reads is disk, and a node has none",
        ),
    ],
)
def test_scenarios_that_cannot_work_are_refused(changes, said):
    with pytest.raises(OptionsError, match=said):
        scenario(**changes)


def test_a_file_is_a_scenario_with_a_bill(tmp_path: Path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    report = xs.sim.simulate(path)
    assert scenario_of(path).cluster.machines[0].memory_bytes == 64 << 30
    assert report.num_requests == {
        "requests of disks": report.num_requests["requests of disks"],
        "reads of storage": 100 * 60,
        "writes of storage": 80 * 13,
    }
    assert report.costs["machines"] == pytest.approx(4 * 1.373 * report.seconds / 3600)
    assert report.costs["reads"] == pytest.approx(6 * 0.0004)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('machine = "i4i.4xlarge"', 'machine = "t2.nano"'), "there is no machine 't2.nano'"),
        (("num_nodes = 4", "num_nodes = 0"), "num_nodes is 0"),
        (("num_nodes = 4", "num_node = 4"), "no key 'num_node'"),
        (("num_splits = 100\n", ""), r"lacks a number.*num_splits"),
        (("reduce = 1.0", ""), "no cost model for reduce"),
        (("connections = 16", "connections = 0"), "connections is 0"),
        (("us-west-2-2022-11", "us-east-1"), "there is no price list 'us-east-1'"),
        (("[cpu]", "[gpu]"), "no key 'gpu'"),
        (("[cluster]", "[cluster"), "is no TOML"),
    ],
)
def test_files_that_cannot_work_are_refused(tmp_path: Path, change, said):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace(*change))
    with pytest.raises((OptionsError, InputError), match=said):
        scenario_of(path)


def test_a_file_without_a_shuffle_is_refused(tmp_path: Path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN[: PLAN.index("[shuffle]")])
    with pytest.raises(OptionsError, match=r"plan\.toml has no table \[shuffle\]; add it$"):
        scenario_of(path)


def test_the_command_prints_a_report_and_draws_it(tmp_path: Path):
    path, picture = tmp_path / "plan.toml", tmp_path / "picture.html"
    path.write_text(PLAN)
    done = CliRunner().invoke(cli, ["simulate", str(path), "--report", str(picture)])
    assert done.exit_code == 0, done.output
    assert "100 tasks" in done.output
    assert "USD" in done.output
    page = picture.read_text()
    drawing = page[page.index("<svg") : page.index("</svg>") + 6]
    svg = ET.fromstring(drawing)  # noqa: S314  we have drawn it
    assert len(svg.findall("{http://www.w3.org/2000/svg}polygon")) >= 4
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    told = CliRunner().invoke(cli, ["simulate", str(path), "--json"])
    assert json.loads(told.output)["stages"][0]["name"] == "map"


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    done = CliRunner().invoke(cli, ["simulate", str(path), "--report", str(tmp_path / "no/x.html")])
    assert "cannot be written" in str(done.exception)


@pytest.mark.parametrize("name", strategy_names())
def test_what_a_dead_node_had_is_made_again(name):
    """The node dies in the middle of the reduces, or of the folds."""
    sizes = {"round_size": 6, "merge_factor": 3, "num_partitions": 60}
    whole = simulate(scenario(strategy=name, **sizes))
    last = whole.stages[-1]
    faults = Faults(node_deaths=[((last.start + last.end) / 2, "node-2")])
    report = simulate(scenario(strategy=name, **sizes), faults=faults)
    assert report.seconds > whole.seconds
    maps = {stage.name: stage.num_tasks for stage in report.stages}["map"]
    assert maps > 24
    assert not any(
        any(line.shares[int(report.seconds / report.piece_seconds) - 1 :])
        for line in report.lines
        if line.node == "node-2"
    )


def test_columns_are_looked_at_again_when_something_has_moved():
    """As one by one: what a column takes from where is the sum of what its slices take."""
    models = {"make": lambda _call: Cost((), GB), "read": lambda _call: Cost()}
    cluster = Cluster.of(Machine(1, 3 * GB, Disk(1e9, 1e9), 1e9), 2)
    with xs.init(SimEngine(cluster, models=models)) as engine:
        make = xs.remote(lambda: None, name="make", num_returns=4)
        read = xs.remote(lambda _column: None, name="read")
        refs = [make.options(node=f"node-{index % 2}").remote() for index in range(12)]
        xs.wait(refs, num_ready=12)
        group = group_of(xs.Refs(refs))
        for _ in range(3):
            found: dict[tuple[str, bool], tuple[int, int]] = {}
            for ref in refs:
                copy = ref._object.state.copy
                num_bytes, count = found.get((copy.node, copy.in_memory), (0, 0))
                found[copy.node, copy.in_memory] = num_bytes + GB // 4, count + 1
            assert group.column_media() == found
            xs.wait([make.remote() for _ in range(2)], num_ready=2)
            xs.wait([read.remote(xs.Refs(refs).column(1))])
        assert engine.stats()["spilled_bytes"] > 0
