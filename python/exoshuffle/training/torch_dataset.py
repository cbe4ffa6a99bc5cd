"""A loader as PyTorch's ``IterableDataset``, for programs that insist on ``torch.utils.data.DataLoader``.

Guarantee: torch's loader hands out the batches of ours as they are. Its worker processes are refused, however they are
started: each would hand out every row.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

from exoshuffle.errors import OptionsError


def torch_dataset(batches: Iterable[Any], count: Callable[[], int]) -> Iterable[Any]:
    """Returns an ``IterableDataset`` whose items are batches.

    Why the class is made here: its base is PyTorch's, which programs that do not ask for this need not have.

    Args:
        batches: The batches of an epoch, whenever they are iterated over.
        count: Counts them.

    Raises:
        OptionsError: PyTorch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise OptionsError(
            "as_torch_dataset needs torch, and it is not installed; install it, or use the loader itself"
        )
    methods = {
        "__iter__": lambda _: iter(batches),
        "__len__": lambda _: count(),
        "__reduce_ex__": _refuse_to_travel,
    }
    base = importlib.import_module("torch.utils.data").IterableDataset
    made: Iterable[Any] = type("LoaderBatches", (base,), methods)()
    return made


def _refuse_to_travel(*_: object) -> None:
    raise OptionsError(
        "torch's DataLoader sends its dataset to worker processes, and each would hand out every row; give it "
        "num_workers=0"
    )
