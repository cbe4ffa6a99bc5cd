"""When a worker process has taken more memory than was set apart for it, and the error that says so.

The engines measure their workers in ways of their own; what they allow, and what they say, is here.
"""

from __future__ import annotations

from exoshuffle.errors import FunctionMemoryError
from exoshuffle.units import format_bytes

#: A worker is blamed if it has so many bytes more than are set apart for it, and more than this share of them.
#: Allocators keep some freed memory.
WORKER_SLACK_BYTES = 16_000_000
WORKER_SLACK_PART = 10
#: A worker that has so much more than its own when a task begins has it from others.
LEFT_BYTES = WORKER_SLACK_BYTES // 2


def allowed_bytes(set_apart: int) -> int:
    """Returns how much a worker may have before it is to blame, from the bytes that are set apart for it."""
    return set_apart + set_apart // WORKER_SLACK_PART + WORKER_SLACK_BYTES


def error_of_taking_more(
    task: str, function: str | None, num_bytes: int, num_started: int, set_apart: int, limit: int
) -> FunctionMemoryError:
    """Returns the error of a task whose worker was stopped.

    Args:
        task: The name of the task.
        function: The user's function that ran; empty or None where that is not known.
        num_bytes: The memory that the worker had.
        num_started: The number of processes that it had started, whose memory is among that.
        set_apart: The memory that was set apart for it.
        limit: The memory limit.
    """
    running = f"{function}, in task {task}," if function else f"task {task}"
    others = f" and {num_started} that it started" if num_started else ""
    return FunctionMemoryError(
        f"{running} had {format_bytes(num_bytes)} of memory in its worker process{others}, "
        f"and {format_bytes(set_apart)} were set apart for it; the memory limit of {format_bytes(limit)} had no more. "
        "Declare with memory= what it takes beside its rows, so that no more tasks run at once than fit. Or let it "
        "take fewer rows at a time, or raise memory_limit"
    )
