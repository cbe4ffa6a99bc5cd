"""Ray's options for tasks, calls and actors."""

from __future__ import annotations

import ray

from exoshuffle.engines.ray.failures import RetryableAttemptError
from exoshuffle.engines.ray.objects import Shape
from exoshuffle.errors import OptionsError
from exoshuffle.futures.options import TaskOptions


def with_options(remote: ray.RemoteFunction, **options: object) -> ray.RemoteFunction:
    """Returns a remote function or class with Ray's options; Ray refuses some, such as shares below 0.0001.

    Raises:
        OptionsError: Ray refuses an option.
    """
    try:
        return remote.options(**options)
    except ValueError as error:
        raise OptionsError(str(error)) from error


def returns(options: TaskOptions, name: str, shape: Shape) -> dict[str, object]:
    """Returns Ray's options for the results of a task or call, and for when to try again."""
    return {
        "num_returns": "streaming" if options.is_streaming else 1 + shape.num_parts,
        "retry_exceptions": [RetryableAttemptError],
        "name": name,
    }
