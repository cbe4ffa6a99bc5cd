"""``Summarizing``: one value for all rows of a column, and a table of such values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.applying import Dataset
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.joining import Joining
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Value

if TYPE_CHECKING:
    import pyarrow as pa


class Summarizing(Joining[Dataset]):
    """Values about all rows of a dataset."""

    def agg(self, /, *given: Any, **aggregates: Any) -> Dataset:
        """Aggregates all rows, into one."""
        raise NotImplementedError

    def sum(self, column: str | None = None, **others: object) -> Value:
        """Returns the sum of a column, which is null if it has no value; so do the others of these methods."""
        return self._value("sum", column, others)

    def mean(self, column: str | None = None, **others: object) -> Value:
        """Returns the mean of a column."""
        return self._value("mean", column, others)

    def min(self, column: str | None = None, **others: object) -> Value:
        """Returns the least value of a column."""
        return self._value("min", column, others)

    def max(self, column: str | None = None, **others: object) -> Value:
        """Returns the greatest value of a column."""
        return self._value("max", column, others)

    def std(self, column: str | None = None, **others: object) -> Value:
        """Returns the standard deviation of a column, as of a sample."""
        return self._value("std", column, others)

    def median(self, column: str | None = None, **others: object) -> Value:
        """Returns the median of a column."""
        return self._value("median", column, others)

    def _value(self, function: str, column: str | None, others: Mapping[str, object]) -> Value:
        refuse_arguments("sum", others, function)
        if column is None:
            raise OptionsError(
                f"{function} got no column; name one, as in {function}(name), or write agg() for several"
            )
        # A value of any type that a column may have.
        return self.agg(value=(column, function)).to_pydict()["value"][0]

    def describe(self) -> pa.Table:
        """Returns a few numbers about each column: a column ``statistic``, and one for each column of the dataset.

        The lines are ``count`` (of values that are not null), ``null_count``, ``mean``, ``std``, ``min``, ``25%``,
        ``50%``, ``75%`` and ``max``. Columns of numbers have doubles; other columns have text, with null where a line
        means nothing. Quartiles are approximate, as those of ``approx_quantile``. Decimals of more than 38 digits are
        only counted.

        Cost: reads the input once.
        """
        from exoshuffle.dataset.describing import described

        return described(self.schema, lambda specs: self.agg(**specs).to_arrow())
