"""``concat``: the union of a list of datasets, as users of pandas and Polars call it."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.narrow import check_datasets
from exoshuffle.errors import OptionsError, shown


def concat(datasets: Sequence[Dataset]) -> Dataset:
    """Makes a dataset of the rows of several, one after the other; see ``Dataset.union``.

    Raises:
        OptionsError: No list of datasets, or an empty one.
        SchemaError: As ``Dataset.union``.
    """
    listed = list(datasets) if isinstance(datasets, list | tuple) else []
    if not listed:
        raise OptionsError(
            f"concat takes a list of datasets, and got {shown(datasets)}; give one at least"
        )
    check_datasets("concat", listed)
    first: Dataset = listed[0]
    return first.union(*listed[1:]) if listed[1:] else first
