"""``await ref``: waits for an object without holding up the event loop.

Why a thread for each: engines wait in native code or in another library, and know no event loops. The thread also reads
the value, which may be large. It is no thread of the loop's own pool, whose few threads others need, and no program has
to wait for it at its end.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

_Outcome = TypeVar("_Outcome")


def awaited(take: Callable[[], object]) -> Generator[object, None, Any]:
    """Returns what ``take`` returns, or raises what it raises, while the event loop goes on; for ``__await__``.

    Cancelling the await does not cancel the task; its result is then dropped.
    """
    import asyncio  # takes 40 ms, and few programs await

    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def settle(set_outcome: Callable[[_Outcome], None], outcome: _Outcome) -> None:
        if not future.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            settled = functools.partial(settle, future.set_result, take())
        except BaseException as error:  # noqa: BLE001  raised where it is awaited
            settled = functools.partial(settle, future.set_exception, error)
        with contextlib.suppress(
            RuntimeError
        ):  # a loop that is closed, where nobody awaits any more
            loop.call_soon_threadsafe(settled)

    threading.Thread(target=run, name="await", daemon=True).start()
    return (yield from future)
