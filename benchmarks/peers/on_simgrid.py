"""SimGrid: runs a graph of tasks that ``benchmarks.sim_simgrid`` made, and prints how long it takes.

    python benchmarks/peers/on_simgrid.py < GRAPH.json        # a Python with SimGrid, as Debian's python3-simgrid

Each task is an actor. It waits for its predecessors, receives its slices from all nodes at once, and then takes its
steps. A flow crosses the sender's link out and the receiver's link in. Nothing else delays it: the model is CM02,
without latency, factors or windows of TCP. A disk is a host that is reached over a link of the disk's rate.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from simgrid import Actor, Comm, Engine, Host, Link, LinkInRoute, NetZone, Semaphore, this_actor

FLOPS = 1e9
#: No task waits for a core, and no route but those of the graph slows a flow.
CORES, UNLIMITED = 10_000, 1e18
SETTINGS = (
    "network/model:CM02",
    "network/optim:Full",
    "network/bandwidth-factor:1",
    "network/latency-factor:0",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
)


def platform(nodes: list[dict[str, float]], connection: float) -> None:
    """Builds the nodes with their links and disks, and the object storage, of which each flow has a connection."""
    zone = NetZone.create_full_zone("cluster")
    hosts, ways = [], []
    for index, node in enumerate(nodes):
        hosts.append(zone.create_host(f"node-{index}", FLOPS / node["slowness"]))
        hosts[-1].core_count = CORES
        ways.append([zone.create_link(f"{way}-{index}", node["network"]) for way in ("out", "in")])
        disk = zone.create_host(f"disk-{index}", FLOPS)
        link = zone.create_link(f"disk-{index}", node["disk"])
        zone.add_route(hosts[-1].netpoint, disk.netpoint, None, None, [LinkInRoute(link)], True)
    storage = zone.create_host("storage", FLOPS)
    each = zone.create_link("connection", connection)
    each.set_sharing_policy(Link.SharingPolicy.FATPIPE, None)
    for index, host in enumerate(hosts):
        for other, far in enumerate(hosts):
            if other != index:
                links = [LinkInRoute(ways[index][0]), LinkInRoute(ways[other][1])]
                zone.add_route(host.netpoint, far.netpoint, None, None, links, False)
        back = [LinkInRoute(each), LinkInRoute(ways[index][1])]
        zone.add_route(storage.netpoint, host.netpoint, None, None, back, False)
    zone.seal()


def run(task: dict[str, Any], mine: Semaphore, later: list[Semaphore]) -> None:
    """Is a task."""
    host = this_actor.get_host()
    for _ in task["sources"]:
        mine.acquire()
    remote: dict[str, float] = {}
    for source, num_bytes in task["sources"]:
        if source != host.name:
            remote[source] = remote.get(source, 0.0) + num_bytes
    arriving = [
        Comm.sendto_async(Host.by_name(source), host, round(num_bytes))
        for source, num_bytes in remote.items()
    ]
    for comm in arriving:
        comm.wait()
    if task["read"]:
        Comm.sendto(Host.by_name("storage"), host, task["read"])
    this_actor.execute(task["cpu_seconds"] * FLOPS)
    if task["written"]:
        disk = Host.by_name(host.name.replace("node", "disk"))
        Comm.sendto(host, disk, task["written"])
    for each in later:
        each.release()


def main() -> None:
    """Runs the graph on standard input; prints its seconds."""
    graph = json.load(sys.stdin)
    engine = Engine(["simgrid", *(f"--cfg={setting}" for setting in SETTINGS)])
    platform(graph["nodes"], graph["connection"])
    semaphores = [Semaphore(0) for _ in graph["tasks"]]
    for task, mine in zip(graph["tasks"], semaphores, strict=True):
        later = [semaphores[index] for index in task["later"]]
        host = Host.by_name(task["node"])
        Actor.create("task", host, run, task, mine, later)
    engine.run()
    print(Engine.clock)


if __name__ == "__main__":
    main()
