"""What tasks print and log in Ray workers reaches the output and the loggers of the program, with task and process.

It goes over Ray's channel for what workers print, but by itself: Ray's own way reads files some tenths of a second
later, so that the last lines of a program are lost, and loggers get nothing. Only where this program has started Ray or
joined a cluster; where Ray runs in it already, its user has said how Ray is to show what workers print.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ray
from ray._private import worker as ray_worker

from exoshuffle.engines import hearing
from exoshuffle.engines.saying import RecordSender, Speaker, TaskOutput

#: By it the program tells these messages from Ray's own.
_MARK = "exoshuffle"
#: What Ray calls who prints what comes over the channel; it is taken away by this name when Ray ends.
_LISTENER = "ray_print_logs"

#: Of the attempt that runs in this process, if one does.
_level_here: int | None = None


@contextlib.contextmanager
def spoken(name: str, log_level: int | None) -> Iterator[None]:
    """In a worker, around an attempt of a task of this name; None as the level: nobody listens."""
    global _level_here
    _level_here = log_level
    if log_level is None:
        yield
        return

    def send(said: list[Any]) -> None:
        _publish(json.dumps([name, os.getpid(), said], default=str))

    speaker = Speaker(send, threading.RLock())
    outputs = [TaskOutput(speaker, name, getattr(sys, name)) for name in ("stdout", "stderr")]
    sender, level = RecordSender(speaker, log_level), logging.root.level
    logging.root.addHandler(sender)
    logging.root.setLevel(log_level)
    speaker.begin()
    try:
        with contextlib.redirect_stdout(outputs[0]), contextlib.redirect_stderr(outputs[1]):
            yield
    finally:
        logging.root.setLevel(level)
        logging.root.removeHandler(sender)
        for output in outputs:
            output.end()
        speaker.flush()
        # Threads that the function has left print where Ray has it.
        speaker.is_listened_to = False


def _publish(line: str) -> None:
    worker = ray_worker.global_worker
    message = {
        "ip": worker.node_ip_address,
        "pid": os.getpid(),
        "job": ray.get_runtime_context().get_job_id(),
        "is_err": False,
        "lines": [line],
        "actor_name": None,
        "task_name": _MARK,
    }
    # What is said is lost where the cluster is; the task is not to fail for it.
    with contextlib.suppress(Exception):
        worker.gcs_client.publish_logs(message)


def level_here() -> int | None:
    """What the tasks get to know that are submitted by a task in this process."""
    return _level_here


def listen() -> None:
    """In the program, after Ray has begun with ``log_to_driver``: it prints nothing by itself any more."""
    dispatcher = ray_worker.global_worker_stdstream_dispatcher
    dispatcher.remove_handler(_LISTENER)
    dispatcher.add_handler(_LISTENER, _hear)


def _hear(message: dict[str, Any]) -> None:
    if message["task_name"] == _MARK:
        for line in message["lines"]:
            name, process, said = json.loads(line)
            hearing.hear(said, name, process)
