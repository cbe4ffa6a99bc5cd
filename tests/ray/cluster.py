"""Ray for tests: engines on the Ray that runs, nodes, ports and processes."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator
from unittest import mock

import ray
from ray.cluster_utils import Cluster

import exoshuffle as xs
from exoshuffle.engines.ray import RayEngine

STORE_BYTES = 200_000_000


def engine_on_the_ray_that_runs(num_cpus: int) -> Iterator[RayEngine]:
    """An engine for a fixture, on what this process is connected to; leaves it running if it has all its CPUs."""
    made = xs.init(engine="ray")
    assert isinstance(made, RayEngine)
    with mock.patch.object(ray, "cancel", wraps=ray.cancel) as cancel:
        yield made
    xs.shutdown()
    if cancel.called:
        leave_ray_without_its_cpus(num_cpus)


def leave_ray_without_its_cpus(num_cpus: int) -> None:
    """Ray 2.60 has lost the CPU of a task that was cancelled while it was given a worker; tests may need all."""
    deadline = time.monotonic() + 20
    while ray.is_initialized() and ray.available_resources().get("CPU") != num_cpus:
        if time.monotonic() > deadline:
            logging.getLogger(__name__).warning("Ray has lost a CPU; it is started anew")
            ray.shutdown()
        time.sleep(0.1)


def add_node(cluster: Cluster, number: int, **options: object) -> None:
    resources = {f"node{number}": 1}
    cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, resources=resources, **options)


def children_of_this_process() -> set[int]:
    """Processes that this one has started and that still run."""
    path = f"/proc/self/task/{os.getpid()}/children"
    with open(path) as file:
        return {int(word) for word in file.read().split()}


def unused_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as unused:
        unused.bind(("", 0))
        port: int = unused.getsockname()[1]
        return port
