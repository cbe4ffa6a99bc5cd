"""``Summarizing``: one value for all rows of a column, and a table of such values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exoshuffle.dataset.applying import Dataset
from exoshuffle.dataset.joining import Joining
from exoshuffle.futures import Value

if TYPE_CHECKING:
    import pyarrow as pa


class Summarizing(Joining[Dataset]):
    """Values about all rows of a dataset."""

    def agg(self, /, *given: Any, **aggregates: Any) -> Dataset:
        """Aggregates all rows, into one."""
        raise NotImplementedError

    def sum(self, column: str) -> Value:
        """Returns the sum of a column, which is null if it has no value; so do the others of these methods."""
        return self._value(column, "sum")

    def mean(self, column: str) -> Value:
        """Returns the mean of a column."""
        return self._value(column, "mean")

    def min(self, column: str) -> Value:
        """Returns the least value of a column."""
        return self._value(column, "min")

    def max(self, column: str) -> Value:
        """Returns the greatest value of a column."""
        return self._value(column, "max")

    def std(self, column: str) -> Value:
        """Returns the standard deviation of a column, as of a sample."""
        return self._value(column, "std")

    def median(self, column: str) -> Value:
        """Returns the median of a column."""
        return self._value(column, "median")

    def _value(self, name: str, function: str) -> Value:
        # A value of any type that a column may have.
        return self.agg(value=(name, function)).to_pydict()["value"][0]

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
