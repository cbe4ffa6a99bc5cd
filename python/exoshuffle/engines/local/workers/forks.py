"""Shuts an engine off in a process that was forked from the engine's own: a child can neither use nor change it.

Guarantee: code in a child that tries gets an error at once (``ForkedEngineError``). A child that ends, drops references
or collects garbage changes nothing of its parent's. A child that goes on when its parent was killed keeps neither the
workers from ending, nor their deaths from being seen. A child may read values that ``get`` returned before the fork, as
long as its parent keeps them. They lie in the store's memory, which both share.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Inherited(Protocol):
    """An object that a child gets a copy of, and that is of use to its parent alone."""

    def forked(self, process: int) -> None:
        """Called in a child: the object belongs to the parent, which has this number."""


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
