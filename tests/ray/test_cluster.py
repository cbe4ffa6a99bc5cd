"""A cluster of three nodes: joining it, preferring nodes, and losing one."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
from ray.cluster_utils import Cluster

import exoshuffle as xs
from exoshuffle.cli.main import _run
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.engines.ray import delivery
from exoshuffle.errors import (
    BlockLostError,
    EngineError,
    OptionsError,
    ProtocolError,
    TaskError,
    WorkerDiedError,
)
from exoshuffle.futures import Ref, Refs
from exoshuffle.futures.events import TaskFinished
from exoshuffle.strategies import Push, ShufflePlan, Simple, Streaming, TaskSet
from exoshuffle.testing.shuffles import small_plan
from tests.ray.cluster import STORE_BYTES, unused_port
from tests.support.oracle import write_files

NUM_RECORDS = 600_000


def node_of_task() -> str:
    """Where a task runs."""
    name: str = ray.get_runtime_context().get_node_id()
    return name


def place(number: int) -> str:
    """The name of a node."""
    return next(node.name for node in xs.nodes() if f"node{number}" in node.resources)


def remove(cluster: Cluster, number: int) -> None:
    """A node dies."""
    node = next(node for node in cluster.list_all_nodes() if node.node_id == place(number))
    cluster.remove_node(node, allow_graceful=False)


def test_a_cluster_is_joined_and_left(cluster: Cluster) -> None:
    engine = xs.init(engine="ray", address=cluster.address)
    assert (engine.num_cpus, engine.budget_bytes) == (3, 3 * STORE_BYTES)
    assert len(xs.nodes()) == 3
    # All have this version, so none was sent.
    assert xs.get(xs.remote(lambda: xs.__file__).remote()) == xs.__file__
    for number in range(3):
        only = xs.remote(lambda: bytes(1_000_000), resources={f"node{number}": 1}).remote()
        xs.wait([only])
        assert xs.locate(only) == [place(number)]
        # By now all know of the node, which a preference alone would not have waited for.
        run = xs.remote(node_of_task, node=place(number))
        assert xs.get([run.remote() for _ in range(2)]) == 2 * [place(number)]
    with pytest.raises(OptionsError, match="needs 2 CPU; the node that has most has 1"):
        xs.remote(node_of_task, num_cpus=2).remote()
    with pytest.raises(OptionsError, match="no node has together"):
        xs.remote(node_of_task, resources={"node0": 1, "node1": 1}).remote()
    xs.shutdown()
    assert not ray.is_initialized()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "PROTOCOL", -1)
        with pytest.raises(
            ProtocolError,
            match=r"protocol .* has sent its own; install exoshuffle .* on every node",
        ):
            xs.init(engine="ray", address=cluster.address)
    assert not ray.is_initialized()
    # It has stayed as it was, and answers to a variable too.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_ADDRESS", cluster.address)
        xs.init(engine="ray")
        assert len(xs.nodes()) == 3


class Placed:
    """A task set whose rows say on which node each task ran; there are six partitions."""

    executor = "process"
    states_are_slices = True

    def map(self, index: int, split: int) -> list[list[str]]:
        return [[f"map {index} {split}"] for _ in range(6)]

    def fold(self, partition: int, state: list[str] | None, slices: list[list[str]]) -> list[str]:
        assert len(slices) == 2
        return [*(state or ()), f"{partition} {node_of_task()}"]

    def merge(self, *blocks: list[list[str]]) -> list[list[str]]:
        return [[node_of_task()] for _ in blocks[0]]

    def reduce(self, partition: int, slices: list[list[str]]) -> tuple[int, str, list[str]]:
        return partition, node_of_task(), [row for rows in slices for row in rows]


def test_rows_are_merged_and_reduced_on_the_node_that_has_their_partition(
    cluster: Cluster,
) -> None:
    xs.init(engine="ray", address=cluster.address)
    # By now all know of the nodes, which a preference alone would not wait for.
    xs.get([xs.remote(node_of_task, resources={f"node{i}": 1}).remote() for i in range(3)])
    plan = dataclasses.replace(small_plan(8, 6), round_size=4, merge_factor=2)
    tasks: Any = Placed()
    results = xs.get(list(Push().shuffle(tasks, range(8), plan)))
    assert [partition for partition, _, _ in results] == list(range(6))
    nodes = [node for _, node, _ in results]
    assert nodes[::2] == nodes[1::2]
    assert len(set(nodes)) == 3
    assert all(merged == [node] * 4 for _, node, merged in results)
    pulled = xs.get(list(Simple().shuffle(tasks, range(8), plan)))
    assert [node for _, node, _ in pulled] == nodes


def test_states_are_made_and_reduced_on_the_node_that_has_their_partition(
    cluster: Cluster,
) -> None:
    xs.init(engine="ray", address=cluster.address)
    xs.get([xs.remote(node_of_task, resources={f"node{i}": 1}).remote() for i in range(3)])
    tasks: Any = Placed()
    shuffled = Streaming(round_size=2).shuffle(tasks, range(8), small_plan(8, 6))
    results = xs.get(list(shuffled))
    assert [partition for partition, _, _ in results] == list(range(6))
    assert len({node for _, node, _ in results}) == 3
    assert all(folded == [f"{partition} {node}"] * 4 for partition, node, folded in results)


@pytest.mark.parametrize("strategy", ["simple", "push", "pre_shuffle_merge"])
def test_a_node_dies_in_a_shuffle(cluster: Cluster, tmp_path: Path, strategy: str) -> None:
    gensort(tmp_path / "in", NUM_RECORDS, partitions=4)
    engine = xs.init(engine="ray", address=cluster.address)
    dataset = xs.read_records(tmp_path / "in").sort(strategy=strategy, num_partitions=12)
    num_splits = dataset.explain().splits
    mapped = 0

    def kill_after_most_maps(event: TaskFinished) -> None:
        nonlocal mapped
        mapped += event.name == "map"
        if event.name == "map" and mapped == num_splits - 1:
            remove(cluster, 2)

    engine.add_observer(kill_after_most_maps)
    dataset.write_records(tmp_path / "out")
    assert len(cluster.list_all_nodes()) == 2
    before, after = valsort(tmp_path / "in"), valsort(tmp_path / "out")
    assert after.is_sorted
    assert (after.records, after.checksum) == (NUM_RECORDS, before.checksum)


def test_a_node_dies_between_rounds(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With states of the strategy ``streaming`` on it, which are made of all maps before."""
    groups = 100_000
    keys = [row % groups for row in range(NUM_RECORDS)]
    table = pa.table({"key": keys, "row": range(NUM_RECORDS)})
    source = write_files(tmp_path / "in", table, 4, rows_per_group=15_000)
    xs.init(engine="ray", address=cluster.address)
    stream = xs.read_parquet(source).group_by("key").agg(n="count", total=("row", "sum")).stream()
    for _ in range(4):
        next(stream)
    remove(cluster, 2)
    *_, final = stream
    assert len(cluster.list_all_nodes()) == 2
    last = final.table.sort_by("key")
    assert last["key"].to_pylist() == list(range(groups))
    assert set(last["n"].to_pylist()) == {NUM_RECORDS // groups}
    expected = table.group_by("key").aggregate([("row", "sum")]).sort_by("key")
    assert last["total"].to_pylist() == expected["row_sum"].to_pylist()
    # Ray's core would tell how many objects it makes anew.
    assert capfd.readouterr().err == ""


class DiesBefore:
    """A strategy before whose maps node 2 dies, with what an earlier shuffle has left there.

    Until then the other nodes have something else to do, so all of it lies on node 2.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.occupied = [occupy(number) for number in (0, 1)]

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        # A split may be several small blocks.
        blocks = [
            ref for split in splits for ref in (split if isinstance(split, Refs) else [split])
        ]
        xs.wait(blocks, num_ready=len(blocks))
        # Ray has brought some of them to the first node as well, for tasks that waited there.
        assert all(place(2) in xs.locate(block) for block in blocks)
        for _, connection in self.occupied:
            connection.close()
        xs.get([task for task, _ in self.occupied])
        remove(self.cluster, 2)
        yield from Simple().shuffle(tasks, splits, plan)


def occupy(number: int) -> tuple[Ref, socket.socket]:
    """Takes the CPU of a node, until the connection is closed."""

    def last_as_long_as(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        on_node = xs.remote(last_as_long_as, resources={f"node{number}": 1})
        task = on_node.remote(server.getsockname()[1])
        return task, server.accept()[0]


def test_a_node_dies_with_blocks_of_an_earlier_shuffle(cluster: Cluster, tmp_path: Path) -> None:
    rows = 200_000
    table = pa.table({"k": pa.array(range(rows)), "text": ["x" * 50] * rows})
    source = write_files(tmp_path / "in", table, 6)
    xs.init(engine="ray", address=cluster.address)
    joined = xs.read_parquet(source).join(
        xs.read_parquet(source).rename({"text": "other"}), on="k", num_partitions=12
    )
    groups = joined.with_columns(g="k % 10").group_by("g", strategy=DiesBefore(cluster))
    made = groups.agg(n="count", total=("k", "sum")).to_arrow()
    assert len(cluster.list_all_nodes()) == 2
    assert sum(made["n"].to_pylist()) == rows
    assert sum(made["total"].to_pylist()) == rows * (rows - 1) // 2


def test_the_error_names_the_node_that_died(cluster: Cluster) -> None:
    def wait_for_ever() -> Iterator[int]:
        yield 1
        threading.Event().wait()

    xs.init(engine="ray", address=cluster.address)
    name = place(2)
    options = {"resources": {"node2": 1}, "max_retries": 0, "num_returns": "streaming"}
    running = xs.remote(wait_for_ever, **options).remote()
    assert xs.get(next(running)) == 1
    remove(cluster, 2)
    with pytest.raises(TaskError, match=r"wait_for_ever failed in attempt 1") as caught:
        next(running)
    assert isinstance(caught.value.__cause__, WorkerDiedError)
    assert caught.value.node == name


def test_what_nothing_can_make_again(cluster: Cluster) -> None:
    class Maker:
        def make(self) -> bytes:
            return bytes(1_000_000)

    xs.init(engine="ray", address=cluster.address)
    made = xs.remote(Maker, resources={"node2": 1}).remote().make.remote()
    xs.wait([made])
    remove(cluster, 2)
    with pytest.raises(BlockLostError, match=r"Maker\.make is lost"):
        xs.get(made)
    with pytest.raises(BlockLostError):
        xs.get(xs.remote(len).remote(made))


# --- no cluster ----------------------------------------------------------------------------------------------------


def test_nobody_answers() -> None:
    with pytest.raises(EngineError, match=r"no Ray cluster answers .* ray start --head"):
        xs.init(engine="ray", address=f"localhost:{unused_port()}")


@pytest.fixture
def mute() -> Any:
    """The port of a server that accepts connections and says nothing."""
    with socket.create_server(("", 0)) as server:
        connections: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    connections.append(server.accept()[0])
            except OSError:
                pass

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in connections:
            connection.close()


def test_somebody_else_answers(mute: int) -> None:
    with pytest.raises(EngineError, match=r"something listens .* no Ray cluster .* in 2 s"):
        xs.init(engine="ray", address=f"localhost:{mute}", connect_timeout_seconds=2)


def test_the_command_line_needs_an_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gensort(tmp_path / "in", 10, partitions=1)
    sort = ["sort", str(tmp_path / "in"), str(tmp_path / "out"), "--format", "records"]
    address = ["--address", f"localhost:{unused_port()}"]
    assert _run([*sort, "--engine", "ray", *address]) == 1
    assert "no Ray cluster answers" in capfd.readouterr().err
    assert _run([*sort, *address]) == 2
    assert "--engine ray" in capfd.readouterr().err
