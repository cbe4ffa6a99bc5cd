"""Waits while an actor comes back, or ends: Ray fails a call that is made meanwhile, unless the call may be repeated.

Ray waits a second for news of an actor whose process has ended. A new process took 0.4 s on 2 idle CPUs, and more than
2 s on busy ones. So calls behind a death failed there.
"""

from __future__ import annotations

import contextlib
import time

import ray
import ray.exceptions as rays
from ray._private import worker as ray_worker

#: Ray's numbers of states of an actor (``ActorTableData.ActorState``).
_ALIVE, _RESTARTING = 2, 3
#: Longest wait for a new process: a cluster may have no room for it. Ray then fails the call.
RESTART_SECONDS = 60.0
#: Longest wait for the news that an actor's process has ended, beside that second. There are none where only its
#: connection was lost, or where it is back already.
NEWS_SECONDS = 3.0
#: Longest wait for the end of an actor that was killed.
END_SECONDS = 10.0
#: Time between looks; a look takes some microseconds.
LOOK_SECONDS = 0.005


def await_restart(handle: ray.actor.ActorHandle) -> None:
    """Waits as long as an actor is being made anew, as far as this process knows."""
    _await_other_state(handle._actor_id, _RESTARTING, RESTART_SECONDS)


def await_news(error: rays.RayActorError) -> None:
    """Waits until this process knows what became of the actor of a call that failed, so that it sees the restart."""
    if isinstance(error, rays.ActorUnavailableError) and error.actor_id is not None:
        _await_other_state(ray.ActorID.from_hex(error.actor_id), _ALIVE, NEWS_SECONDS)


def await_end(handle: ray.actor.ActorHandle) -> None:
    """Waits until an actor has ended that was killed: Ray lets calls through until then."""
    with contextlib.suppress(rays.RayActorError, rays.GetTimeoutError):
        deadline = time.monotonic() + END_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            ray.get(handle.__ray_ready__.remote(), timeout=left)


def _await_other_state(actor: ray.ActorID, state: int, seconds: float) -> None:
    core = ray_worker.global_worker.core_worker
    deadline = time.monotonic() + seconds
    while core.get_local_actor_state(actor) == state and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
