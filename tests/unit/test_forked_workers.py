"""Processes that a fork server has started, as their engine sees them."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from exoshuffle.engines.local.workers import wire
from exoshuffle.engines.local.workers.servers import Forked


@pytest.fixture
def ended() -> int:
    """The number of a process that has ended and that nobody knows any more."""
    child = os.fork()
    if child == 0:
        os._exit(3)
    os.waitpid(child, 0)
    return child


@pytest.mark.parametrize(
    ("says", "code"),
    [(wire.EXIT_CODE.pack(-signal.SIGTERM), -signal.SIGTERM), (b"", -signal.SIGKILL)],
    ids=["the server", "nobody"],
)
def test_one_that_is_killed_before_it_is_looked_at_has_ended(
    says: bytes, code: int, ended: int
) -> None:
    """A chaos run of an hour had a task fail for it, with a FileNotFoundError of /proc."""
    told, server = os.pipe()
    os.write(server, says)
    os.close(server)
    children = SimpleNamespace(children=set())
    forked = Forked(children, ended, told)  # type: ignore[arg-type]
    assert forked.wait() == code
    forked.kill()
    assert forked.poll() == code


def test_one_that_has_ended_and_is_not_known_to_have_is_killed_in_vain(ended: int) -> None:
    told, server = os.pipe()
    forked = Forked(SimpleNamespace(children=set()), ended, told)  # type: ignore[arg-type]
    forked.kill()
    os.close(server)
    assert forked.wait() == -signal.SIGKILL
