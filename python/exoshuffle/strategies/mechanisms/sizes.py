"""How large blocks are, for strategies that decide by it.

An engine does not tell the size of an object. A small task that takes the block as its argument does, on the node where
the block lies: it maps the block and returns a number, so no data moves over a network or to the program. Values that
are neither buffers nor know their size count as the objects that they are at the top, not what these refer to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from exoshuffle.futures import Ref, get, locate, remote, wait


def block_sizes(blocks: Sequence[Ref]) -> list[int]:
    """Bytes of each block; waits for the blocks. Cost: one task per block that needs no CPU slot.

    Raises:
        TaskError: The task that makes a block has failed.
    """
    wait(blocks, num_ready=len(blocks))
    measure = remote(value_bytes, name="measure", executor="thread", num_cpus=0)
    places = [locate(block) for block in blocks]
    return [
        int(size)
        for size in get(
            [
                measure.options(node=place[0] if place else None).remote(block)
                for block, place in zip(blocks, places, strict=True)
            ]
        )
    ]


def value_bytes(value: Any) -> int:
    """Bytes of a value: of a buffer, of what has ``nbytes``, of the items of a list, else of the object alone."""
    if isinstance(value, list | tuple):
        return sum(map(value_bytes, value))
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    try:
        with memoryview(value) as view:
            return view.nbytes
    except TypeError:
        return sys.getsizeof(value)
