"""The items of a generator task on Ray.

A task yields every item as two Ray objects, the item and a status. The status is small, and tells without fetching the
item whether it is an item, or the error that ended the task.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import ray

from exoshuffle.engines.ray.canceller import Canceller, Target
from exoshuffle.engines.ray.failures import cancelled, error_of
from exoshuffle.engines.ray.objects import Origin, RayObject, Shape
from exoshuffle.engines.ray.state import is_made
from exoshuffle.futures.refs import Ref


class RayStream:
    """See ``StreamHandle``.

    Args:
        generator: Ray's generator.
        origin: The origin of the items.
        canceller: Stops the task when nobody wants more items.
        check_open: Raises ``ClosedError`` once the engine is closed.
    """

    def __init__(
        self,
        generator: ray.ObjectRefGenerator,
        origin: Origin,
        canceller: Canceller,
        check_open: Callable[[], None],
    ) -> None:
        self._generator = generator
        self._origin = origin
        self._canceller = canceller
        self._check_open = check_open
        #: An item whose status has not come yet.
        self._item: ray.ObjectRef | None = None
        self._ended = False
        self._cancelled = False
        self._error: BaseException | None = None

    def limit_ahead(self, count: int) -> None:
        """Does nothing, see ``StreamHandle``: a waiting task keeps its CPUs, which earlier tasks may need to begin."""

    def next_ref(self, index: int, timeout: float | None) -> Ref | None:
        """See ``StreamHandle``."""
        self._check_open()
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._ended and self._item is None:
            self._item = self._take(index, deadline)
        status = None
        if not self._ended:
            status = self._take(index, deadline)
            self._check(status)
        if self._error is not None:
            raise self._error
        if self._ended:
            return None
        item, self._item = self._item, None
        return Ref(RayObject((item,), status, Shape(1), self._origin))

    def _take(self, index: int, deadline: float | None) -> ray.ObjectRef | None:
        """Returns the next Ray object of the stream; None after the last one."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _ = ray.wait([self._generator], timeout=left, fetch_local=False)
        if not ready:
            raise TimeoutError(f"{self._origin.name} has not made item {index} within the timeout")
        taken = next(self._generator, None)
        self._ended = taken is None
        return taken

    def _check(self, status: ray.ObjectRef | None) -> None:
        """Looks whether the item is an item, or the error that ended the task."""
        if status is None and self._item is None:
            return
        try:
            # Nothing follows the error that ended the task; if there is no status, the item is the error.
            ray.get(self._item if status is None else status)
        except ray.exceptions.RayError as error:
            self._ended = True
            self._error = (
                cancelled(self._origin) if self._cancelled else error_of(error, self._origin)
            )

    def cancel(self) -> bool:
        """See ``StreamHandle``."""
        self._check_open()
        if self._ended or self._cancelled or is_made(self._generator.completed()):
            return False
        self._cancelled = True
        self._canceller.cancel(Target(self._generator, self._origin.is_task))
        return True

    def drop(self) -> None:
        """See ``StreamHandle``."""
        if not self._ended:
            self._canceller.cancel_later(Target(self._generator, self._origin.is_task))
