"""Estimates totals and means of a whole input from some of its splits, and bounds how far off they may be.

Sources:

* Hellerstein, Haas and Wang, "Online Aggregation" (SIGMOD 1997)
* Cochran, "Sampling Techniques", 3rd edition: chapter 6 for ratios, chapter 9 for clusters
* Royall and Cumberland, "An Empirical Study of the Ratio Estimator and Estimators of its Variance" (JASA 1981)
* Kish, "Survey Sampling", for how many splits those of different sizes count

The splits read are a simple random sample of clusters, without replacement. Sizes of splits differ, and are known
before they are read; so totals are estimated per row of size. Let n of N splits be read. mᵢ is the size of a split; m
and M are the sizes of the sample and of all. yᵢ, sᵢ, cᵢ are count or sum, sum and count of a group in split i (0 if the
split has no row of it). y, s, c are their totals over the sample.

    total   M·R with R = y/m.  Its variance is V·σ², with
            σ² = Σ(yᵢ − R·mᵢ)² / (Q − 2·Σmᵢ³/m + Q²/m²),  Q = Σmᵢ²,  all over the sample
            V  = Σmᵢ² of the splits not read + (M − m)²·Q/m²
    mean    R = s/c.  Its variance is V·m²/(Q·M²) · Σ(sᵢ − R·cᵢ)²/c² · k/(k − 1),  where k = c²/Σcᵢ²
    error   Student's t for 95 %, times the root of the variance

For splits of one size these are Cochran's: N²·(1 − n/N)/n times the variance between splits, and n − 1 degrees of
freedom. Splits of different sizes give fewer degrees. For totals they are those that match the mean of σ² and its
variance (Satterthwaite). For means they are k − 1, since a group that is in few splits is known from few.

The likeness of splits says nothing of rows that none of them has. So errors of counts and sums have a least size:

* It is Z·√((1 − m/M)·(c + 2))/c of the estimate. Counts vary by it because rows lie by chance (Agresti and Coull, for
  2).
* A group may be alone in splits, as in files that are sorted by it. Wilson's interval bounds the share of such splits,
  and so the most and the fewest among those unread. The error is at least that of these two cases.

Guarantee: after all splits errors are zero. Before, none is. Errors that are not known are null. That is so after one
split, for means whose values are all of one split or the same in all, and for sums of zeros. The truth is within the
error in about 95 % of cases as far as chance made the sample like the rest. Simulations gave 90 % at least: from 12 %
of 32 splits on, of equal, unequal and random sizes, with mixed, rare and sorted keys. With two or three splits the
error is a rough guess, mostly too large. It can be far too small in three cases. Few splits have most rows, and other
ones than the rest. A group is rare: it is seen late, and then too large. Few values make up a sum. Squares are summed
as doubles, so errors below 1e-7 of a mean are not told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.groups import Operands
from exoshuffle.operators.sql.relational import storable

if TYPE_CHECKING:
    import pyarrow as pa

#: Stands for the size of a split among the quantities of a group.
SIZE = "size of the split"
#: Names of columns of sums over splits: of a quantity, and of products of several.
Names = Mapping[Sequence[str], str]

#: 95 % of a normal distribution is within so many standard deviations.
_Z = 1.959963984540054
#: The logarithm of Student's t for 95 %, as a polynomial of 1/degrees. It is fitted for 1 to 24 degrees and infinitely
#: many, and off by 4e-5 at most.
_STUDENT = (math.log(_Z), 1.21023, 0.70708, 0.16988, -0.32033, 0.10233)
#: Residuals are rounding if they are below this share of the squares whose difference they are.
_NOISE = 1e-14
#: If all of a sample but this share is one split, it says nothing of the spread between splits.
_ALONE = 1e-9


@dataclass(frozen=True)
class Sample:
    """The part of the input that has been read.

    Attributes:
        sizes: The sizes of all splits, above 0, in the order of reading; in any unit.
        num_seen: Number of splits that were read: the first ones.
    """

    sizes: Sequence[float]
    num_seen: int

    @property
    def is_all(self) -> bool:
        """Whether no split is left."""
        return self.num_seen == len(self.sizes)

    @property
    def scale(self) -> float:
        """M/m: the factor from totals of the sample to totals of the input."""
        return 1.0 if self.is_all else self.total / self.seen

    @property
    def fraction(self) -> float:
        """The share that was read: m/M."""
        return 1.0 if self.is_all else self.seen / self.total

    @cached_property
    def total(self) -> float:
        """The sum of all sizes: M."""
        return float(sum(self.sizes))

    @cached_property
    def seen(self) -> float:
        """The sum of the sizes that were read: m."""
        return self._powers(1)

    @cached_property
    def squares(self) -> float:
        """The sum of their squares: Q."""
        return self._powers(2)

    @property
    def constants(self) -> dict[str, float | None]:
        """The factors of errors beside the sums of a group: columns that the SQL for errors mentions.

        ``n``, ``m`` and ``q`` are n, m and Q above. ``total_factor`` turns Σ(yᵢ − R·mᵢ)² into squares of errors.
        ``mean_factor`` turns variances of means of an endless input into those of this one. Both are null if there are
        no two splits to compare. ``chance`` and ``unread`` give the least errors.
        """
        has_spread = self.num_seen > 1 and self._expected > _ALONE * self.squares
        student_squared = student(self._degrees) ** 2 if has_spread else 0.0
        total_factor = student_squared * self._variance / self._expected if has_spread else None
        mean_factor = self._variance * self.seen**2 / (self.squares * self.total**2)
        return {
            "n": float(self.num_seen),
            "m": self.seen,
            "q": self.squares,
            "total_factor": total_factor,
            "mean_factor": mean_factor if has_spread else None,
            "chance": _Z * math.sqrt(1 - self.fraction) * self.scale,
            "unread": self.total - self.seen,
        }

    @property
    def constants_sql(self) -> str:
        """A query for one row with the constants."""
        columns = (
            f"{'NULL' if value is None else repr(value)}::DOUBLE AS {name}"
            for name, value in self.constants.items()
        )
        return f"SELECT {', '.join(columns)}"

    @property
    def _seen_sizes(self) -> Sequence[float]:
        return self.sizes[: self.num_seen]

    def _powers(self, exponent: int) -> float:
        return float(sum(size**exponent for size in self._seen_sizes))

    @property
    def _variance(self) -> float:
        """See V above."""
        unread = sum(size**2 for size in self.sizes[self.num_seen :])
        return unread + (self.total - self.seen) ** 2 * self.squares / self.seen**2

    @cached_property
    def _expected(self) -> float:
        """The average of Σ(yᵢ − R·mᵢ)², in units of σ²."""
        return self.squares - 2 * self._powers(3) / self.seen + self.squares**2 / self.seen**2

    @property
    def _degrees(self) -> float:
        """The degrees of freedom: twice the squared mean of Σ(yᵢ − R·mᵢ)², divided by its variance."""
        second, third, fourth, fifth = (self._powers(exponent) for exponent in range(2, 6))
        m = self.seen
        half = (
            fourth
            + (2 * second * fourth - 4 * m * fifth) / m**2
            + (2 * second * fourth + 2 * third**2) / m**2
            + second**4 / m**4
            - 4 * second**2 * third / m**3
        )
        return self._expected**2 / half


def total_error_sql(total: str, count: str, alone: str, names: Names) -> str:
    """Returns SQL for the error of an estimated total; null after one split, and if the total is null.

    Args:
        total: The quantity that is summed.
        count: The quantity that counts its rows.
        alone: The quantity that counts the splits that have no other group; empty if there is one group.
        names: The columns of sums; the columns of ``Sample.constants`` are beside them.
    """
    y, rows = names[total], names[count]
    ratio = f"({y} / m)"
    square = f"({names[total, total]} - 2 * {ratio} * {names[total, SIZE]} + {ratio} ** 2 * q)"
    # Rounding can leave a little less than nothing. greatest() would also ignore nulls.
    spread = f"sqrt(CASE WHEN {square} < 0 THEN 0 ELSE {square} * total_factor END)"
    # If the count is 0, 2 rows are no share of it, but count as much as their size.
    value = f"CASE WHEN {rows} = 0 THEN 1 ELSE abs({y}) / {rows} END"
    bounds = [spread, f"chance * {value} * sqrt({rows} + 2)"]
    if alone:
        bounds.append(_clustered_sql(f"abs({y}) / {names[SIZE,]}", names[alone,]))
    is_told = f"total_factor IS NOT NULL AND {y} IS NOT NULL"
    return f"CASE WHEN {is_told} THEN nullif(greatest({', '.join(bounds)}), 0) END"


def _clustered_sql(density: str, alone: str) -> str:
    """Returns SQL for the error of a total if whole splits are or are not of one group, at ``density`` per size."""
    half = f"{_Z!r}::DOUBLE * sqrt({alone} * (n - {alone}) / n + {_Z**2 / 4!r}::DOUBLE)"
    middle = f"abs({_Z**2 / 2!r}::DOUBLE * (1 - 2 * {alone} / n))"
    share = f"({middle} + {half}) / (n + {_Z**2!r}::DOUBLE)"
    return f"CASE WHEN {alone} > 0 THEN {density} * unread * {share} END"


def mean_error_sql(total: str, count: str, names: Names) -> str:
    """Returns SQL for the error of an estimated mean; null if all values are of one split, or equal.

    Args:
        total: The quantity that is summed.
        count: The quantity that it is divided by.
        names: As for ``total_error_sql``.
    """
    rows = f"nullif({names[count]}, 0)"
    mean = f"({names[total]} / {rows})"
    squares, mixed, counts = names[total, total], names[total, count], names[count, count]
    square = f"({squares} - 2 * {mean} * {mixed} + {mean} ** 2 * {counts})"
    # k - 1 is 0, up to rounding, if all values are of one split: there is no spread then either.
    degrees = f"greatest({rows} ** 2 / {counts} - 1, {_ALONE!r})"
    variance = f"{square} / {rows} ** 2 * ({degrees} + 1) / {degrees}"
    inverse = f"least(1 / {degrees}, 1)"
    terms = (f"{factor!r}::DOUBLE * {inverse} ** {power}" for power, factor in enumerate(_STUDENT))
    # If values are NaN, nothing is noise.
    is_told = f"isnan({square}) OR {square} > {_NOISE!r} * {squares}"
    error = f"exp({' + '.join(terms)}) * sqrt({variance} * mean_factor)"
    return f"CASE WHEN {is_told} THEN {error} END"


def scaled(column: pa.ChunkedArray, scale: float) -> pa.ChunkedArray:
    """Returns the values times ``scale``, in their own type; null if it cannot hold them."""
    import pyarrow as pa

    rows = storable(pa.table({"value": column}))
    operands = Operands(rows, ())
    # DuckDB rounds when it casts to integers.
    product = f"TRY_CAST({scale!r}::DOUBLE * {{value}}::DOUBLE AS {_sql_type(rows['value'].type)})"
    sql = operands.each([operands.sql(product, "value")])
    return operands.in_order(sql)["r0"].cast(column.type)


def student(degrees: float) -> float:
    """Returns Student's t for a two-sided 95 % and so many degrees of freedom, 1 at least."""
    inverse = 1 / max(degrees, 1.0)
    return math.exp(sum(factor * inverse**power for power, factor in enumerate(_STUDENT)))


def _sql_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return {pa.int64(): "BIGINT", pa.uint64(): "UBIGINT", pa.float64(): "DOUBLE"}[kind]
