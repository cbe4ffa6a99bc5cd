"""Connects to a Ray cluster that runs.

Guarantee: a cluster that does not answer is given up after the timeout; workers that lacked this package get it.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import ray
from ray._private import services

from exoshuffle.engines.ray import delivery
from exoshuffle.engines.ray.starting import init_quietly
from exoshuffle.errors import EngineError, OptionsError, ProtocolError

_PROBE = "import sys, ray._raylet; ray._raylet.GcsClient(address=sys.argv[1])"


def join(address: str, timeout_seconds: float) -> None:
    """Connects to a cluster, and sends this package to its workers if any of them has another version or none."""
    if "://" in address:
        raise OptionsError(
            f"address {address} is of a Ray client; run on a node of the cluster, with the address host:port or auto"
        )
    if address != "auto" and not re.fullmatch(r".+:\d+", address):
        raise OptionsError(f"address is {address!r}; write host:port or auto")
    try:
        found = str(services.canonicalize_bootstrap_address(address))
    except ConnectionError as error:
        raise EngineError(
            f"no Ray cluster found on this machine: {error}; start one with ray start --head"
        ) from error
    _check_answers(found, timeout_seconds)
    try:
        init_quietly(address=found)
        if delivery.is_needed(timeout_seconds):
            # Ray takes a package for a whole program, as long as it runs, only when the program connects.
            ray.shutdown()
            init_quietly(address=found, runtime_env=delivery.runtime_env())
            delivery.check_workers(timeout_seconds, was_sent=True)
    except BaseException as error:
        ray.shutdown()
        if isinstance(error, ConnectionError | ValueError):
            raise EngineError(f"cannot join the cluster at {found}: {error}") from error
        if isinstance(error, RuntimeError):
            # Ray compares its own version and Python's.
            raise ProtocolError(f"cannot join the cluster at {found}: {error}") from error
        raise


def _check_answers(address: str, timeout_seconds: float) -> None:
    """Raises ``EngineError`` if no cluster answers. Ray itself would try for minutes, and cannot be told to give up."""
    host, _, port = address.rpartition(":")
    remedy = "start one with ray start --head"
    try:
        socket.create_connection((host, int(port)), timeout_seconds).close()
    except OSError as error:
        raise EngineError(
            f"no Ray cluster answers at {address}: {error.strerror or error}; {remedy}"
        ) from error
    try:
        subprocess.run(  # noqa: S603  this interpreter
            [sys.executable, "-c", _PROBE, address],
            check=True,
            timeout=timeout_seconds,
            capture_output=True,
        )
    except subprocess.SubprocessError as error:
        raise EngineError(
            f"something listens at {address}, but no Ray cluster has answered in {timeout_seconds:g} s; {remedy}"
        ) from error
