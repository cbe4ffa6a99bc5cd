"""Distributed futures: the narrow waist between shuffles (above) and engines (below).

Source: Luan et al., "Exoshuffle", §3.1 and §4.1; Wang's dissertation, ch. 2.
"""

from exoshuffle.futures.api import RemoteFunction, cancel, get, put, raise_errors, remote, wait
from exoshuffle.futures.engine import Engine, TaskOptions, allocate_block
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef
from exoshuffle.futures.session import current_engine, init, shutdown

__all__ = [
    "Column",
    "Engine",
    "Ref",
    "Refs",
    "RemoteFunction",
    "SliceRef",
    "TaskOptions",
    "allocate_block",
    "cancel",
    "current_engine",
    "get",
    "init",
    "put",
    "raise_errors",
    "remote",
    "shutdown",
    "wait",
]
