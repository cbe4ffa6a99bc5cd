"""Passes what tasks print and log in Ray workers to the program's output and loggers, with task and process.

The lines go over Ray's channel for printed lines, as messages of our own. Ray's own way reads files some tenths of a
second later, so that the last lines of a program are lost, and loggers get nothing. This is done only where the program
has started Ray or joined a cluster. Where Ray runs in it already, its user has chosen how Ray shows printed lines.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TypedDict

import ray
from ray._private import worker as ray_worker

from exoshuffle.engines import hearing
from exoshuffle.engines.saying import RecordSender, Said, Speaker, TaskOutput
from exoshuffle.futures.engine import RunningTask

#: The program tells these messages from Ray's own by this mark.
_MARK = "exoshuffle"
#: Ray's name for the handler that prints messages of the channel; Ray removes the handler by this name when it ends.
_LISTENER = "ray_print_logs"

#: The message of a task that begins.
_BEGINS = "begins"
#: When and where tasks of this program have said so, the last ones: more than can run.
_begun: dict[str, RunningTask] = {}
_MOST_BEGUN = 10_000
#: The log level of the attempt that runs in this process, if one does.
_level_here: int | None = None


@contextlib.contextmanager
def spoken(name: str, log_level: int | None) -> Iterator[None]:
    """A context in a worker around an attempt of the task ``name``; with the level None nobody listens."""
    global _level_here
    _level_here = log_level
    if log_level is None:
        yield
        return

    def send(said: list[Said]) -> None:
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
        # Threads that the function has left behind print to Ray's output.
        speaker.is_listened_to = False


def tell_begin() -> None:
    """Tells the program that the task in this process begins; see ``running``."""
    context = ray.get_runtime_context()
    _publish(json.dumps([context.get_task_id(), context.get_node_id(), _BEGINS]))


def running(task: ray.TaskID) -> RunningTask:
    """Returns how long ago a task has told that it begins, and where."""
    begun = _begun.get(task.hex())
    return (
        RunningTask()
        if begun is None
        else RunningTask(time.monotonic() - begun.seconds, begun.node)
    )


def _note_begin(task: str, node: str) -> None:
    _begun[task] = RunningTask(time.monotonic(), node)
    while len(_begun) > _MOST_BEGUN:
        del _begun[next(iter(_begun))]


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
    # If the cluster is lost, so are the lines; the task must not fail for that.
    with contextlib.suppress(Exception):
        worker.gcs_client.publish_logs(message)


class _Message(TypedDict):
    """The part of Ray's message about printed lines that is read here."""

    task_name: str
    lines: list[str]


def level_here() -> int | None:
    """Returns the log level for tasks that are submitted by a task in this process."""
    return _level_here


def listen() -> None:
    """Takes over the channel in the program, after Ray has begun with ``log_to_driver``: Ray itself prints no more."""
    dispatcher = ray_worker.global_worker_stdstream_dispatcher
    dispatcher.remove_handler(_LISTENER)
    dispatcher.add_handler(_LISTENER, _hear)


def _hear(message: _Message) -> None:
    if message["task_name"] == _MARK:
        for line in message["lines"]:
            name, place, said = json.loads(line)
            if said == _BEGINS:
                _note_begin(name, place)
            else:
                hearing.hear(said, name, place)
