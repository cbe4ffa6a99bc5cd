"""Checks what a ``DataLoader`` is given, and where it runs."""

from __future__ import annotations

import sys

from exoshuffle.arguments import is_whole
from exoshuffle.dataset.jobs.windows import check_window
from exoshuffle.errors import OptionsError, shown
from exoshuffle.units import parse_bytes


def checked_shuffle(shuffle: object) -> bool | str:
    """Returns whether rows are shuffled, or in windows of which size.

    Raises:
        OptionsError: It is something else.
    """
    if isinstance(shuffle, bool):
        return shuffle
    if not isinstance(shuffle, str):
        raise OptionsError(
            f"shuffle is {shown(shuffle)}; write True, False, or the size of a window such as '64MB'"
        )
    check_window(shuffle)
    return f"{parse_bytes(shuffle)}B"


def check_sizes(batch_size: object, rank: object, world: object, seed: object) -> None:
    """Raises ``OptionsError`` unless these are a batch and a rank that gets rows of it."""
    if not is_whole(batch_size) or batch_size < 1:
        raise OptionsError(
            f"batch_size is {shown(batch_size)}; it must be a whole number from 1 on: the rows of a step on all ranks "
            "together"
        )
    if not is_whole(world) or world < 1:
        raise OptionsError(f"world is {shown(world)}; it must be a number of processes, from 1 on")
    if not is_whole(rank) or not 0 <= rank < world:
        raise OptionsError(
            f"rank is {shown(rank)} and world is {world}; ranks are whole numbers from 0 to {world - 1}"
        )
    if batch_size < world:
        raise OptionsError(
            f"batch_size is {batch_size} and world is {world}, so some ranks would get no row; "
            "batch_size counts rows of all ranks, so choose a larger one"
        )
    if world > 1 and seed is None:
        raise OptionsError(
            f"world is {world} and no seed is given, so each rank would choose another order; give all ranks one seed"
        )


def refuse_workers() -> None:
    """Raises ``OptionsError`` in a worker process of PyTorch's: each of them would hand out all rows."""
    workers = sys.modules.get("torch.utils.data")
    info = None if workers is None else workers.get_worker_info()
    if info is not None:
        raise OptionsError(
            f"this is worker {info.id} of {info.num_workers} of torch's DataLoader, and each would hand out all; "
            "use this loader in its place, or give it num_workers=0"
        )
