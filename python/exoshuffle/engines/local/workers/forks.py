"""What becomes of an engine in a process that its own has forked: nothing there can use it or changes anything of it.

Guarantee: whoever tries is told at once (``ForkedEngineError``); a child that ends, drops references or collects
garbage changes nothing of its parent's; and a child that goes on when its parent has been killed does not keep the
workers from ending, nor their deaths from being seen. What ``get`` returned before the fork a child may read as long as
its parent keeps it: it lies in the store's memory, which both share.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Inherited(Protocol):
    """What a child gets a copy of that is of use to its parent alone."""

    def forked(self, process: int) -> None:
        """This process is a child of the one with this number, which it belongs to."""


_all: weakref.WeakSet[Inherited] = weakref.WeakSet()
_process = os.getpid()


def tell_children(one: Inherited) -> None:
    """Has ``forked`` called in every child that this process forks as long as ``one`` lives."""
    global _process
    _process = os.getpid()
    _all.add(one)


def _after_in_child() -> None:
    inherited = list(_all)
    _all.clear()
    for one in inherited:
        one.forked(_process)


os.register_at_fork(after_in_child=_after_in_child)
