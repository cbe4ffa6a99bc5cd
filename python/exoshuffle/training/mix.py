"""``mix``: several datasets as one, in given proportions, for a ``DataLoader``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, cast, get_args

from exoshuffle.arguments import is_number
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.errors import OptionsError, SchemaError, differing, shown
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.training.file_rows import is_empty
from exoshuffle.training.picks import Stop, portion_rows
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Mix:
    """Several datasets as one; made by ``mix``, for a ``DataLoader``.

    Attributes:
        datasets: The sources.
        weights: The weight of each, in the proportions of all; None for the proportions of their rows.
        stop: See ``mix``.
    """

    datasets: tuple[Dataset, ...]
    weights: tuple[Fraction, ...] | None
    stop: Stop

    def __repr__(self) -> str:
        shares = (
            "" if self.weights is None else f", weights={[float(each) for each in self.weights]}"
        )
        return f"Mix({len(self.datasets)} datasets{shares}, stop={self.stop!r})"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows; a column may be null where it may be in one of the sources."""
        import pyarrow as pa

        several = zip(*(dataset.schema for dataset in self.datasets), strict=True)
        return pa.schema(
            [
                fields[0].with_nullable(any(field.nullable for field in fields)).remove_metadata()
                for fields in several
            ]
        )


def mix(
    datasets: Sequence[Dataset], weights: Sequence[float] | None = None, *, stop: str = "first"
) -> Mix:
    """Mixes datasets for a ``DataLoader``, so that so many of its rows come from each as the weights say.

    >>> data = xs.mix([web, code], weights=[0.7, 0.3], stop="all")
    >>> loader = xs.DataLoader(data, batch_size=4096, seed=7)

    Take the rows from the first one of an epoch up to any multiple of 1,024 but the last. The number of those from a
    source differs by less than one from its share. Between these the sources come in random order. (If a source has
    less than one row in 1,024, it is multiples of as many rows as it has one in.) Each source is in the order that the
    loader's ``shuffle`` names. Mixtures resume as other loaders do.

    Args:
        datasets: A list of datasets of one schema, each as a ``DataLoader`` takes it.
        weights: A number above 0 for each; only their proportions count. None has less than a millionth of their sum.
            Default: the proportions of their rows.
        stop: Where an epoch ends. ``"first"``: when the first source has no row left. ``"all"``: when every row of
            every source came; shorter ones begin again, in another order unless ``shuffle=False``. ``"once"``: when
            every row came exactly once; the others share what a source without rows leaves.

    Returns:
        The mixture, which only a ``DataLoader`` takes.

    Raises:
        OptionsError: At once: no datasets, a dataset without rows, or weights or a word that cannot work.
        SchemaError: At once: the datasets have different columns.

    Cost: of the loader, as much as of one for each source; its batches are copies. Sources that do not tell their
    numbers of rows, such as text, are counted when it is made.
    """
    given = tuple(datasets) if isinstance(datasets, list | tuple) else ()
    if not given or not all(isinstance(each, Dataset) for each in given):
        raise OptionsError(f"mix takes a list of datasets, and got {shown(datasets)}")
    if stop not in get_args(Stop):
        raise OptionsError(f'stop is {shown(stop)}; write "first", "all" or "once"')
    for number, each in enumerate(given):
        if is_empty(each.node):
            raise OptionsError(f"dataset {number} of a mixture has no row; leave it out")
        if _columns(each) != _columns(given[0]):
            found, expected = differing(_columns(each), _columns(given[0]))
            raise SchemaError(
                f"mix got datasets with other columns: {found}, and before {expected}; select() and cast() them alike"
            )
    return Mix(given, _checked(weights, len(given)), cast("Stop", stop))


def _checked(weights: object, count: int) -> tuple[Fraction, ...] | None:
    if weights is None:
        return None
    is_list = isinstance(weights, list | tuple) and len(weights) == count
    if not is_list or not all(
        is_number(weight) and math.isfinite(weight) and weight > 0
        for weight in cast("list[float]", weights)
    ):
        raise OptionsError(
            f"weights is {shown(weights)}; give a list of {counted(count, 'number')} above 0, one for each dataset"
        )
    made = tuple(map(_as_written, cast("list[float]", weights)))
    portion_rows(made)
    return made


def _as_written(weight: float) -> Fraction:
    """Returns 7/10 for 0.7, which as a float is a little less: 7 and 3 rows would not be 0.7 and 0.3 of ten."""
    if isinstance(weight, Rational):
        return Fraction(int(weight.numerator), int(weight.denominator))
    return Fraction(repr(float(weight)))


def _columns(dataset: Dataset) -> list[str]:
    return [f"{field.name}: {field.type}" for field in dataset.schema]
