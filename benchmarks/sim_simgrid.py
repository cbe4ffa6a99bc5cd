"""Holds the engine in virtual time against SimGrid, a simulator that others wrote, on random graphs of tasks.

    python -m benchmarks.sim_simgrid --python /usr/bin/python3    # one that has SimGrid: apt install python3-simgrid

Nodes differ in speed, network and disk. Each task is on a given node, as soon as its predecessors have ended. It takes
slices of theirs, reads from the object storage, computes, and writes to its disk. So the programs are compared in how
flows share networks, storage and disks, and in what waits for what. The choice of nodes is not. Nothing is fitted.

One thing differs on purpose. The slices of a task that come from more than eight other nodes are one flow here, whose
parts arrive at the same moment. In SimGrid each node's part is a flow of its own. These graphs have at most six.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import exoshuffle as xs
from exoshuffle.engines.sim import (
    Call,
    Cluster,
    Cost,
    Disk,
    Machine,
    ObjectStorage,
    SimEngine,
    Step,
)
from exoshuffle.engines.sim.models import CostModel
from exoshuffle.futures import Ref, SliceRef, TaskOptions, current_engine, wait

PEER = Path(__file__).parent / "peers" / "on_simgrid.py"
MEGABYTE = 10**6


@dataclass(frozen=True)
class Node:
    """A node: how many times as long its tasks take; bytes per second of its network, each way, and of its disk."""

    slowness: float
    network: float
    disk: float


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        node: The number of its node.
        sources: The tasks that it takes a slice of.
        slice_bytes: The size of each slice of its result.
        read: Bytes that it reads from the object storage.
        cpu_seconds: The time that it computes then, where the node's slowness is 1.
        written: Bytes that it writes to its disk in the end.
    """

    node: int
    sources: tuple[int, ...]
    slice_bytes: int
    read: int
    cpu_seconds: float
    written: int


@dataclass(frozen=True)
class Graph:
    """Nodes, tasks, and bytes per second of a connection to the object storage."""

    nodes: list[Node]
    tasks: list[Task]
    connection: float

    def later(self, index: int) -> list[int]:
        """Returns the tasks that take a slice of a task."""
        return [each for each, task in enumerate(self.tasks) if index in task.sources]

    def to_json(self) -> str:
        """Returns it as SimGrid's side reads it."""
        tasks = [
            {
                "node": f"node-{task.node}",
                "sources": [
                    (f"node-{self.tasks[source].node}", self.tasks[source].slice_bytes)
                    for source in task.sources
                ],
                "read": task.read,
                "cpu_seconds": task.cpu_seconds,
                "written": task.written,
                "later": self.later(index),
            }
            for index, task in enumerate(self.tasks)
        ]
        nodes = [vars(node) for node in self.nodes]
        return json.dumps({"nodes": nodes, "tasks": tasks, "connection": self.connection})


def random_graph(seed: int, most_far: int = 6) -> Graph:
    """Makes 3 to 10 nodes, and 30 to 120 tasks, each with slices of up to six earlier ones.

    Args:
        seed: Decides all that is random.
        most_far: The most other nodes that slices of one task come from.
    """
    choice = random.Random(seed)
    nodes = [
        Node(
            choice.uniform(0.5, 2),
            choice.uniform(50, 500) * MEGABYTE,
            choice.uniform(50, 500) * MEGABYTE,
        )
        for _ in range(choice.randint(3, 10))
    ]
    tasks: list[Task] = []
    for index in range(choice.randint(30, 120)):
        recent = range(max(0, index - 30), index)
        sources = choice.sample(recent, min(len(recent), choice.randint(0, 6)))
        is_first = not sources
        node = choice.randrange(len(nodes))
        far = dict.fromkeys(tasks[source].node for source in sources if tasks[source].node != node)
        near = {node, *list(far)[:most_far]}
        tasks.append(
            Task(
                node=node,
                sources=tuple(sorted(each for each in sources if tasks[each].node in near)),
                slice_bytes=choice.randint(1, 200) * MEGABYTE,
                read=choice.randint(100, 1000) * MEGABYTE if is_first else 0,
                cpu_seconds=choice.uniform(0, 2),
                written=choice.choice([0, choice.randint(10, 500) * MEGABYTE]),
            )
        )
    return Graph(nodes, tasks, choice.uniform(50, 200) * MEGABYTE)


def here(graph: Graph) -> float:
    """Returns the seconds that a graph takes in virtual time."""
    machines = tuple(
        Machine(
            num_cpus=len(graph.tasks),
            memory_bytes=10**15,
            disk=Disk(node.disk, node.disk),
            network_bytes_per_second=node.network,
            slowness=node.slowness,
        )
        for node in graph.nodes
    )
    storage = ObjectStorage(connection_bytes_per_second=graph.connection)
    cluster = Cluster(machines, storage, call_seconds=1e-9, task_seconds=0, fetches_ahead=False)
    models = {
        str(index): _model(task, len(graph.later(index))) for index, task in enumerate(graph.tasks)
    }
    with xs.init(SimEngine(cluster, models=models)) as engine:
        assert isinstance(engine, SimEngine)
        refs: list[Ref] = []
        given = [0] * len(graph.tasks)
        for index, task in enumerate(graph.tasks):
            slices = []
            for source in task.sources:
                num_slices = len(graph.later(source))
                slices.append(refs[source][given[source]] if num_slices > 1 else refs[source])
                given[source] += 1
            options = TaskOptions(
                num_returns=max(1, len(graph.later(index))),
                node=f"node-{task.node}",
                name=str(index),
            )
            refs.append(_submit(slices, options))
        wait(refs, num_ready=len(refs))
        return engine.now


def _submit(sources: list[Ref | SliceRef], options: TaskOptions) -> Ref:
    ref = current_engine().submit(_modelled, tuple(sources), {}, options)
    assert isinstance(ref, Ref)
    return ref


def _modelled(*sources: object) -> None:
    del sources
    raise AssertionError("modelled tasks take time; they do not run")


def _model(task: Task, num_slices: int) -> CostModel:
    """Returns the cost model of a task: its steps, one after the other."""
    steps = (
        Step(read_bytes=task.read),
        Step(cpu_seconds=task.cpu_seconds),
        Step(disk_write_bytes=task.written),
    )

    def cost(call: Call) -> Cost:
        del call
        return Cost(steps, task.slice_bytes * max(1, num_slices))

    return cost


def there(graph: Graph, python: str) -> float:
    """Returns the seconds that SimGrid gives it."""
    ran = subprocess.run(
        [python, str(PEER)], input=graph.to_json(), capture_output=True, text=True, check=True
    )
    return float(ran.stdout)


def compare(most_far: int, num_graphs: int, python: str) -> None:
    """Prints both times of some graphs, and the errors."""
    print(f"slices of a task from at most {most_far} other nodes")
    errors = []
    for seed in range(num_graphs):
        graph = random_graph(seed, most_far)
        ours, theirs = here(graph), there(graph, python)
        errors.append(abs(ours / theirs - 1))
        sizes = f"{len(graph.tasks):>4} tasks on {len(graph.nodes):>2} nodes"
        error = f"{100 * (ours / theirs - 1):+.3f} %"
        print(f"  seed {seed:>2}, {sizes}: {theirs:>8.2f} s, here {ours:>8.2f} s, {error}")
    print(
        f"  errors: median {100 * statistics.median(errors):.3f} %, largest {100 * max(errors):.3f} %"
    )


def main() -> None:
    """Compares graphs of both kinds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sim_simgrid", description=__doc__)
    parser.add_argument(
        "--python", default=sys.executable, help="a Python that has SimGrid; default: this one"
    )
    parser.add_argument(
        "--graphs", type=int, default=20, help="number of graphs of each kind; default: 20"
    )
    asked = parser.parse_args()
    for most_far in (1, 6):
        compare(most_far, asked.graphs, asked.python)


if __name__ == "__main__":
    main()
