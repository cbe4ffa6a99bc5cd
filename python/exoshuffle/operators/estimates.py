"""What totals and means of a whole input are likely to be, from some of its splits, and how far off they may be.

Source: Hellerstein, Haas and Wang, "Online Aggregation" (SIGMOD 1997); Cochran, "Sampling Techniques", 3rd edition:
chapter 2 for totals, chapter 6 for ratios, chapter 9 for clusters. The first n of N splits are a simple random sample
of clusters, without replacement. Let c_i and s_i be count and sum of a group in split i (0 where the split has none of
it), C and S their totals over the n splits, and f = n/N.

    total   N/n · S,   with variance  N² · (1 − f)/n · (Σ s_i² − S²/n) / (n − 1);   counts alike
    mean    R = S/C,   with variance  (1 − f) · n/C² · (Σ s_i² − 2R · Σ c_i·s_i + R² · Σ c_i²) / (n − 1)
    error   Student's t for 95 % and n − 1 degrees of freedom, times the root of the variance

Guarantee: after all splits errors are zero (the factor 1 − f). Before, the truth is within the error in about 95 % of
cases, for a group of which many splits have some rows. The bound says less of a rare group (which is seen late, and
then too large), of a sum that few values make up, and of an input of which few splits have most rows. Squares are
summed as doubles, so that errors below 1e-8 of the value are noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exoshuffle.operators.aggregate_rows import Operands
from exoshuffle.operators.relational import storable

if TYPE_CHECKING:
    import pyarrow as pa

#: Of the normal distribution: 95 % is within so many standard deviations.
_Z = 1.959963984540054
#: Student's t for 95 % and 1 or 2 degrees of freedom; for more a series is exact to 0.1 %.
_STUDENT = {1: 12.706204736, 2: 4.302652730}


@dataclass(frozen=True)
class Sample:
    """How much of the input has been read.

    Attributes:
        num_seen: Splits that were read.
        num_splits: All of them.
    """

    num_seen: int
    num_splits: int

    @property
    def is_all(self) -> bool:
        """Whether nothing is left."""
        return self.num_seen == self.num_splits

    @property
    def scale(self) -> float:
        """N/n, by which totals of a sample are too small."""
        return 1.0 if self.is_all else self.num_splits / self.num_seen

    @property
    def factor(self) -> float | None:
        """t² · (1 − f) / (n − 1), which both squares of errors have; None after one split, which has no spread."""
        if self.num_seen < 2:
            return None
        degrees = self.num_seen - 1
        return student(degrees) ** 2 * (1 - self.num_seen / self.num_splits) / degrees


def error_sql(sample: Sample, quantities: Sequence[str], names: Mapping[Any, str]) -> str:
    """SQL for the error of an estimate; null after one split, and of a mean without values.

    Args:
        sample: How much has been read.
        quantities: A total; for a mean the total and the count.
        names: The columns of their sums, and of the sums of products of each pair of them, by the pair.
    """
    factor = sample.factor
    if factor is None:
        return "NULL::DOUBLE"
    n = sample.num_seen
    first, *others = quantities
    total, squares = names[first], names[first, first]
    if not others:
        factor *= sample.num_splits**2 / n
        square = f"{squares} - {total} ** 2 / {n}"
    else:
        factor *= n
        (other,) = others
        count = f"nullif({names[other]}, 0)"
        mean = f"({total} / {count})"
        mixed, counts = names[first, other], names[other, other]
        square = f"({squares} - 2 * {mean} * {mixed} + {mean} ** 2 * {counts}) / {count} ** 2"
    # Rounding can leave a little less than nothing. greatest() would take nulls for nothing, too.
    return f"sqrt(CASE WHEN {square} < 0 THEN 0 ELSE ({square}) * {factor!r}::DOUBLE END)"


def scaled(column: pa.ChunkedArray, scale: float) -> pa.ChunkedArray:
    """The values times ``scale``, in their own type; null where it cannot hold them."""
    import pyarrow as pa

    rows = storable(pa.table({"value": column}))
    operands = Operands(rows, ())
    # DuckDB rounds where it casts to integers.
    product = f"TRY_CAST({scale!r}::DOUBLE * {{value}}::DOUBLE AS {_sql_type(rows['value'].type)})"
    sql = operands.each([operands.sql(product, "value")])
    return operands.in_order(sql)["r0"].cast(column.type)


def student(degrees: int) -> float:
    """Student's t for a two-sided 95 % and so many degrees of freedom (Abramowitz and Stegun, 26.7.5)."""
    if degrees in _STUDENT:
        return _STUDENT[degrees]
    z, d = _Z, float(degrees)
    terms = (
        (z**3 + z) / (4 * d),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * d**4),
    )
    return z + sum(terms)


def _sql_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return {pa.int64(): "BIGINT", pa.uint64(): "UBIGINT", pa.float64(): "DOUBLE"}[kind]
