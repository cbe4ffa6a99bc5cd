"""``concat`` and ``merge``: unions and joins as functions, as users of pandas and Polars call them."""

from __future__ import annotations

from collections.abc import Sequence

from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.narrow import check_datasets
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.sql.expressions import lit


def concat(datasets: Sequence[Dataset], how: str = "vertical", **others: object) -> Dataset:
    """Makes a dataset of the rows of several, one after the other; see ``Dataset.union``.

    Args:
        datasets: The datasets.
        how: ``"vertical"`` for datasets of the same columns; with ``"diagonal"``, columns that one lacks are null.
        **others: None; arguments of pandas and Polars are refused with what to write instead.

    Raises:
        OptionsError: No list of datasets, or an empty one; or ``how`` is another word.
        SchemaError: As ``Dataset.union``.
    """
    refuse_arguments("concat", others)
    listed = list(datasets) if isinstance(datasets, list | tuple) else []
    if not listed:
        raise OptionsError(
            f"concat takes a list of datasets, and got {shown(datasets)}; give one at least"
        )
    check_datasets("concat", listed)
    if how not in ("vertical", "diagonal"):
        raise OptionsError(f'how is {shown(how)}; write "vertical" or "diagonal"')
    if how == "diagonal":
        listed = _filled(listed)
    first: Dataset = listed[0]
    return first.union(*listed[1:]) if listed[1:] else first


merge = Dataset.merge


def _filled(datasets: Sequence[Dataset]) -> list[Dataset]:
    """Returns datasets of the same columns: nulls fill those that one lacks."""
    types = {field.name: field.type for each in reversed(datasets) for field in each.schema}
    filled = []
    for each in datasets:
        lacking = {name: kind for name, kind in types.items() if name not in each.columns}
        nulls = each.with_columns(**dict.fromkeys(lacking, lit(None))) if lacking else each
        filled.append(nulls.cast(lacking) if lacking else each)
    return filled
