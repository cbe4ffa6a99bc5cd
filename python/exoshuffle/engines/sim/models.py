"""Cost models: what a task takes in virtual time, for tasks whose functions do not run.

A model is a function of a ``Call``, which has the sizes of the task's arguments, and returns a ``Cost``. Why functions
and not numbers: what a reduce takes follows from what it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A task, as its model sees it.

    Attributes:
        name: The name of the task.
        number: Its number among the tasks of this name, from 0.
        input_bytes: Bytes of the slices that it takes.
        num_inputs: How many slices, or ranges of them, these are.
        num_slices: Slices that its result has to have.
    """

    name: str
    number: int
    input_bytes: int
    num_inputs: int
    num_slices: int


@dataclass(frozen=True)
class Step:
    """A part of a task, all of which happens at the same time: it takes as long as what takes longest.

    Attributes:
        cpu_seconds: On one CPU.
        read_bytes, read_requests: From the object storage.
        write_bytes, write_requests: To the object storage.
        disk_read_bytes, disk_write_bytes: From and to the disks of its node, beside what the store spills.
        disk_requests: Requests of the disks.
    """

    cpu_seconds: float = 0.0
    read_bytes: int = 0
    read_requests: int = 0
    write_bytes: int = 0
    write_requests: int = 0
    disk_read_bytes: int = 0
    disk_write_bytes: int = 0
    disk_requests: int = 0


@dataclass(frozen=True)
class Cost:
    """The resources that a task takes, and the size of its result.

    Attributes:
        steps: One after the other.
        output_bytes: The size of its result, all slices together; its slices are of equal size.
    """

    steps: tuple[Step, ...] = ()
    output_bytes: int = 0


CostModel = Callable[[Call], Cost]
