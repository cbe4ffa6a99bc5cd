"""Distributed futures: the narrow waist between shuffles (above) and engines (below).

Source: Luan et al., "Exoshuffle", §3.1 and §4.1; Wang's dissertation, ch. 2.
"""

from exoshuffle.futures.actors import ActorHandle, RemoteClass, kill
from exoshuffle.futures.api import (
    RemoteFunction,
    RemoteGenerator,
    cancel,
    get,
    locate,
    nodes,
    put,
    raise_errors,
    remote,
    running,
    slice_bytes,
    wait,
)
from exoshuffle.futures.engine import (
    PROTOCOL,
    DescribedEngine,
    Engine,
    Node,
    RunningTask,
    TimingEngine,
    allocate_block,
    waiting,
)
from exoshuffle.futures.gpus import get_gpu_ids
from exoshuffle.futures.options import ActorOptions, TaskOptions
from exoshuffle.futures.refs import Column, Ref, Refs, RefStream, SliceRef, Value
from exoshuffle.futures.session import Scoped, adopt, current_engine, init, shutdown

__all__ = [
    "PROTOCOL",
    "ActorHandle",
    "ActorOptions",
    "Column",
    "DescribedEngine",
    "Engine",
    "Node",
    "Ref",
    "RefStream",
    "Refs",
    "RemoteClass",
    "RemoteFunction",
    "RemoteGenerator",
    "RunningTask",
    "Scoped",
    "SliceRef",
    "TaskOptions",
    "TimingEngine",
    "Value",
    "adopt",
    "allocate_block",
    "cancel",
    "current_engine",
    "get",
    "get_gpu_ids",
    "init",
    "kill",
    "locate",
    "nodes",
    "put",
    "raise_errors",
    "remote",
    "running",
    "shutdown",
    "slice_bytes",
    "wait",
    "waiting",
]
