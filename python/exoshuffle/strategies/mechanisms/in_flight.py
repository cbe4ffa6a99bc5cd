"""Runs a bounded number of tasks of one kind at a time, and says which are done; slow ones may get a copy."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence

from exoshuffle.futures import Ref
from exoshuffle.strategies.mechanisms.races import Races
from exoshuffle.strategies.mechanisms.speculation import Speculation

Submit = Callable[[int], Ref]
SubmitCopy = Callable[[int, str | None], Ref]


def as_finished(
    submit: Submit,
    indices: Sequence[int],
    speculation: Speculation | None = None,
    submit_copy: SubmitCopy | None = None,
    meanwhile: Callable[[], Sequence[Ref]] = tuple,
) -> Iterator[tuple[int, Ref]]:
    """Runs tasks and yields the index and the result of each, once, as they are done.

    Args:
        submit: Submits the task of an index.
        indices: The indices in the order in which to submit.
        speculation: When a slow task gets a copy; default: no copies.
        submit_copy: Submits a copy of the task of an index, to another node than where the task runs; default:
            ``submit``. The node is None where none is known.
        meanwhile: Called before every wait; returns further references that end the wait when they are done.

    Raises:
        TaskError: A task, and its copy if there is one, has failed.

    Cost: the references that the program holds, and looks at when a task is done, grow with the CPUs, not the tasks.
    """
    waiting = collections.deque(indices)
    tasks = Races(len(waiting), speculation)
    while waiting or tasks.races:
        while waiting and len(tasks.races) < tasks.limit:
            index = waiting.popleft()
            tasks.start(index, submit(index))
        yield from tasks.finished(meanwhile())
        for index in tasks.slow():
            node = tasks.elsewhere(index)
            tasks.add_copy(index, submit_copy(index, node) if submit_copy else submit(index))


def run_all(
    submit: Submit,
    indices: Sequence[int],
    speculation: Speculation | None,
    submit_copy: SubmitCopy | None = None,
    meanwhile: Callable[[], Sequence[Ref]] = tuple,
) -> list[Ref]:
    """Returns the results of tasks in the order of their indices. Without speculation it does not wait for them.

    The arguments are those of ``as_finished``.

    Raises:
        TaskError: With speculation, as in ``as_finished``.
    """
    if speculation is None:
        return [submit(index) for index in indices]
    results = dict(as_finished(submit, indices, speculation, submit_copy, meanwhile))
    return [results[index] for index in indices]
