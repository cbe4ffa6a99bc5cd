"""Plans for clusters that are only described: what they take at least, and that a petabyte takes no time to plan."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import exoshuffle as xs
from exoshuffle.cli.main import cli
from exoshuffle.engines.sim import Cluster, Disk, Machine, Question, Scenario, estimate, simulate
from exoshuffle.errors import MemoryLimitError, OptionsError

GB = 10**9
PLAN = """
[cluster]
machine = "i4i.4xlarge"
num_nodes = NODES
store_percent = 60

[storage]

[shuffle]
total = "TOTAL"
reads = "storage"
writes = "storage"

[cpu]
map = 4.5
merge = 2
reduce = 2

[prices]
list = "us-west-2-2022-11"
machines = { "i4i.4xlarge" = NODES, "r6i.2xlarge" = 1 }
"""


def question(tmp_path: Path, num_nodes: int, total: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("NODES", str(num_nodes)).replace("TOTAL", total))
    return path


@pytest.mark.parametrize(("num_nodes", "total"), [(400, "1PB"), (40, "100TB")])
def test_a_petabyte_is_planned_in_no_time(tmp_path: Path, num_nodes: int, total: str) -> None:
    path = question(tmp_path, num_nodes, total)
    before = time.process_time()
    found = estimate(path)
    assert time.process_time() - before < 1
    tasks = found.plan.num_splits + found.plan.num_merges + found.plan.num_partitions
    assert found.num_objects == tasks
    # The program has room beside the blocks of its node.
    assert 0 < found.plan.program_bytes < 0.1 * 137 * GB
    assert found.disk_requests < 50 * found.plan.num_slices
    gigabytes = found.plan.num_splits * found.plan.split_bytes / GB
    assert found.storage_reads == pytest.approx(gigabytes * GB / (16 << 20), rel=0.01)
    assert found.storage_writes == pytest.approx(gigabytes * GB / 10**8, rel=0.01)
    # Reading and writing by networks of 25 Gbit/s takes longer than that.
    assert found.seconds > 2 * gigabytes / num_nodes / 3.125
    assert set(found.costs) == {"machines", "volumes", "storage", "reads", "writes"}


def test_what_runs_takes_no_less_than_is_estimated() -> None:
    """The same shuffle, simulated."""
    cluster = Cluster.of(Machine(4, 8 * GB, Disk(1e9, 1e9), 1e9), 4)
    cpu = {"map": 1.0, "merge": 0.5, "reduce": 2.0}
    found = estimate(Question(cluster, 100 * GB, cpu, strategy="push"))
    plan = found.plan
    ran = simulate(
        Scenario(
            cluster,
            "push",
            100 * GB,
            plan.num_splits,
            plan.num_partitions,
            cpu,
            round_size=plan.round_size,
            merge_factor=plan.merge_factor,
            map_memory_bytes=plan.map_memory_bytes,
            reduce_memory_bytes=plan.reduce_memory_bytes,
        )
    )
    assert found.seconds <= ran.seconds < 1.5 * found.seconds


def test_devices_take_what_arithmetic_says() -> None:
    """100 GB on two nodes: 12.5 s of 8 CPUs, half of all bytes over networks of 1 GB/s, all of them on two disks."""
    cluster = Cluster.of(Machine(4, 400 * GB, Disk(2e9, 0.5e9), 1e9), 2)
    cpu = {"map": 1.0, "merge": 0.5, "reduce": 2.0}
    found = estimate(Question(cluster, 100 * GB, cpu, strategy="simple"))
    assert found.plan.spilled_bytes == 0
    assert found.map_seconds == pytest.approx({"CPU": 12.5, "network": 0, "disk": 25}, rel=0.01)
    assert found.reduce_seconds == pytest.approx({"CPU": 25, "network": 25, "disk": 100}, rel=0.01)
    assert found.seconds == pytest.approx(125, rel=0.01)


def test_a_cluster_without_disks_is_refused_where_rows_have_to_go_there() -> None:
    cluster = Cluster.of(Machine(4, 8 * GB), 4)
    with pytest.raises(OptionsError, match=r"no node has one; describe it in \[disk\]"):
        estimate(Question(cluster, 100 * GB, {"map": 1, "merge": 1, "reduce": 1}))


def test_a_step_without_a_figure_is_refused() -> None:
    cluster = Cluster.of(Machine(4, 8 * GB, Disk(1e9, 1e9), 1e9), 4)
    with pytest.raises(OptionsError, match="no cost model for merge"):
        estimate(Question(cluster, 100 * GB, {"map": 1, "reduce": 1}, strategy="push"))


def test_what_does_not_fit_names_the_memory_that_does() -> None:
    cluster = Cluster.of(Machine(4, 10**7, Disk(1e9, 1e9), 1e9), 1)
    with pytest.raises(MemoryLimitError, match="the smallest that works is"):
        estimate(Question(cluster, 10**15, {"map": 1, "merge": 1, "reduce": 1}))


def test_the_command(tmp_path: Path) -> None:
    path = str(question(tmp_path, 40, "100TB"))
    told = CliRunner().invoke(cli, ["simulate", path, "--estimate"])
    assert told.exit_code == 0, told.output
    for line in ("memory of the program", "objects of the program", "requests of disks", " USD "):
        assert line in told.output
    found = json.loads(CliRunner().invoke(cli, ["simulate", path, "--estimate", "--json"]).output)
    assert found["seconds"] == pytest.approx(xs.sim.estimate(path).seconds)
    assert found["plan"]["strategy"] == "push"
    assert found["program_bytes"] > 0
    wrong = CliRunner().invoke(cli, ["simulate", path, "--estimate", "--report", "x.html"])
    assert wrong.exit_code == 2
    assert "leave out one of them" in wrong.output


def test_numbers_that_the_plan_decides_are_left_out(tmp_path: Path) -> None:
    path = question(tmp_path, 40, "100TB")
    path.write_text(path.read_text().replace("[shuffle]", "[shuffle]\nnum_splits = 7"))
    with pytest.raises(
        OptionsError, match=r"has num_splits, which an estimate plans itself; leave"
    ):
        estimate(path)
    path = question(tmp_path, 40, "100TB")
    with pytest.raises(OptionsError, match="--estimate"):
        simulate(path)
