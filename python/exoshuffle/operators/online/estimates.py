"""What totals and means of a whole input are likely to be, from some of its splits, and how far off they may be.

Source: Hellerstein, Haas and Wang, "Online Aggregation" (SIGMOD 1997); Cochran, "Sampling Techniques", 3rd edition:
chapter 6 for ratios, chapter 9 for clusters; Royall and Cumberland, "An Empirical Study of the Ratio Estimator and
Estimators of its Variance" (JASA 1981); Kish, "Survey Sampling", for how many splits those of different sizes count.
The splits read are a simple random sample of clusters, without replacement. Splits are of different sizes, which are
known before they are read: so totals are estimated per row of size. Let n of N splits be read, mᵢ the size of a split,
m and M those of the sample and of all; yᵢ, sᵢ, cᵢ count or sum, sum and count of a group in split i (0 where it has
none of it), and y, s, c their totals over the sample.

    total   M·R with R = y/m.  Its variance is V·σ², with
            σ² = Σ(yᵢ − R·mᵢ)² / (Q − 2·Σmᵢ³/m + Q²/m²),  Q = Σmᵢ²,  all over the sample
            V  = Σmᵢ² of the splits not read + (M − m)²·Q/m²
    mean    R = s/c.  Its variance is V·m²/(Q·M²) · Σ(sᵢ − R·cᵢ)²/c² · k/(k − 1),  where k = c²/Σcᵢ²
    error   Student's t for 95 %, times the root of the variance

Of splits of one size these are Cochran's: N²·(1 − n/N)/n times the variance between splits, and n − 1 degrees of
freedom. Others have fewer: for totals those by which the mean of σ² and its variance are matched (Satterthwaite), for
means k − 1, since a group that is in few splits is known from few.

How alike splits are says nothing of rows that none of them has, so errors of counts and sums are at least

    Z·√((1 − m/M)·(c + 2))/c of the estimate: what counts vary by where rows lie by chance (Agresti and Coull, for 2);
    of a group that is alone in splits, as in files that are sorted by it: what it would be off by if it were alone in
    as many or as few of those not read as Wilson's interval for the share of such splits allows.

Guarantee: after all splits errors are zero. Before, none is; errors that cannot be told are null: after one split, of
means whose values are all of one split or the same in all, and of sums of zeros. The truth is within the error in
about 95 % of cases as far as chance made the sample like the rest: simulated from 12 % of 32 splits on, of equal,
unequal and random sizes, with mixed, rare and sorted keys, 90 % at least. With two or three splits it is a rough guess,
mostly too large. It can be far too small for an input of which few splits have most rows and others than the rest, for
a rare group (which is seen late, and then too large), and for a sum that few values make up. Squares are summed as
doubles, so that errors below 1e-7 of a mean are not told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from exoshuffle.operators.sql.groups import Operands
from exoshuffle.operators.sql.relational import storable

if TYPE_CHECKING:
    import pyarrow as pa

#: Stands for the size of a split among the quantities of a group.
SIZE = "size of the split"
#: Names of columns of sums over splits: of a quantity, and of products of several.
Names = Mapping[Any, str]

#: Of the normal distribution: 95 % is within so many standard deviations.
_Z = 1.959963984540054
#: The logarithm of Student's t for 95 %, as a polynomial of 1/degrees: fitted for 1 to 24 degrees and infinitely many,
#: and off by 4e-5 at most.
_STUDENT = (math.log(_Z), 1.21023, 0.70708, 0.16988, -0.32033, 0.10233)
#: Below so much of the squares that they are the difference of, residuals are rounding.
_NOISE = 1e-14
#: A sample of which one split is all but this says nothing of the spread between splits.
_ALONE = 1e-9


@dataclass(frozen=True)
class Sample:
    """How much of the input has been read.

    Attributes:
        sizes: Of all splits, above 0, in the order in which they are read; in whatever unit.
        num_seen: Splits that were read: the first ones.
    """

    sizes: Sequence[float]
    num_seen: int

    @property
    def is_all(self) -> bool:
        """Whether nothing is left."""
        return self.num_seen == len(self.sizes)

    @property
    def scale(self) -> float:
        """M/m, by which totals of a sample are too small."""
        return 1.0 if self.is_all else self.total / self.seen

    @property
    def fraction(self) -> float:
        """The share that was read: m/M."""
        return 1.0 if self.is_all else self.seen / self.total

    @cached_property
    def total(self) -> float:
        """Of all sizes: M."""
        return float(sum(self.sizes))

    @cached_property
    def seen(self) -> float:
        """Of the sizes of those that were read: m."""
        return self._powers(1)

    @cached_property
    def squares(self) -> float:
        """Of their squares: Q."""
        return self._powers(2)

    @property
    def constants(self) -> dict[str, float | None]:
        """What errors are made of beside the sums of a group: columns, which the SQL for errors mentions.

        ``n``, ``m`` and ``q`` are those of above. ``total_factor`` makes squares of errors of Σ(yᵢ − R·mᵢ)², and
        ``mean_factor`` variances of means of those in an input without end; both are null where there are no two splits
        to compare. ``chance`` and ``unread`` make the least errors.
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
        """A query for a row of the constants."""
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
        """What Σ(yᵢ − R·mᵢ)² is on average, of σ²."""
        return self.squares - 2 * self._powers(3) / self.seen + self.squares**2 / self.seen**2

    @property
    def _degrees(self) -> float:
        """Twice the squared mean of Σ(yᵢ − R·mᵢ)², of its variance."""
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
    """SQL for the error of an estimated total; null after one split, and of one that is null.

    Args:
        total: The quantity that is summed.
        count: The quantity that counts its rows.
        alone: The quantity that counts the splits that have no other group; empty if there is one group.
        names: The columns of sums; those of ``Sample.constants`` are beside them.
    """
    y, rows = names[total], names[count]
    ratio = f"({y} / m)"
    square = f"({names[total, total]} - 2 * {ratio} * {names[total, SIZE]} + {ratio} ** 2 * q)"
    # Rounding can leave a little less than nothing. greatest() would take nulls for nothing, too.
    spread = f"sqrt(CASE WHEN {square} < 0 THEN 0 ELSE {square} * total_factor END)"
    # Of a count of nothing 2 rows are no share, but as many as their size is worth.
    value = f"CASE WHEN {rows} = 0 THEN 1 ELSE abs({y}) / {rows} END"
    bounds = [spread, f"chance * {value} * sqrt({rows} + 2)"]
    if alone:
        bounds.append(_clustered_sql(f"abs({y}) / {names[SIZE,]}", names[alone,]))
    is_told = f"total_factor IS NOT NULL AND {y} IS NOT NULL"
    return f"CASE WHEN {is_told} THEN nullif(greatest({', '.join(bounds)}), 0) END"


def _clustered_sql(density: str, alone: str) -> str:
    """How far off a total may be if whole splits are of the group or are not; of so much per size where it is."""
    half = f"{_Z!r}::DOUBLE * sqrt({alone} * (n - {alone}) / n + {_Z**2 / 4!r}::DOUBLE)"
    middle = f"abs({_Z**2 / 2!r}::DOUBLE * (1 - 2 * {alone} / n))"
    share = f"({middle} + {half}) / (n + {_Z**2!r}::DOUBLE)"
    return f"CASE WHEN {alone} > 0 THEN {density} * unread * {share} END"


def mean_error_sql(total: str, count: str, names: Names) -> str:
    """SQL for the error of an estimated mean; null where values of one split, or equal ones, are all there is.

    Args:
        total: The quantity that is summed.
        count: The quantity that it is divided by.
        names: As for ``total_error_sql``.
    """
    rows = f"nullif({names[count]}, 0)"
    mean = f"({names[total]} / {rows})"
    squares, mixed, counts = names[total, total], names[total, count], names[count, count]
    square = f"({squares} - 2 * {mean} * {mixed} + {mean} ** 2 * {counts})"
    # k - 1 is 0, up to rounding, where all values are of one split: there is no spread then either.
    degrees = f"greatest({rows} ** 2 / {counts} - 1, {_ALONE!r})"
    variance = f"{square} / {rows} ** 2 * ({degrees} + 1) / {degrees}"
    inverse = f"least(1 / {degrees}, 1)"
    terms = (f"{factor!r}::DOUBLE * {inverse} ** {power}" for power, factor in enumerate(_STUDENT))
    # Of values that are no numbers nothing is noise.
    is_told = f"isnan({square}) OR {square} > {_NOISE!r} * {squares}"
    error = f"exp({' + '.join(terms)}) * sqrt({variance} * mean_factor)"
    return f"CASE WHEN {is_told} THEN {error} END"


def scaled(column: pa.ChunkedArray, scale: float) -> pa.ChunkedArray:
    """The values times ``scale``, in their own type; null where it cannot hold them."""
    import pyarrow as pa

    rows = storable(pa.table({"value": column}))
    operands = Operands(rows, ())
    # DuckDB rounds where it casts to integers.
    product = f"TRY_CAST({scale!r}::DOUBLE * {{value}}::DOUBLE AS {_sql_type(rows['value'].type)})"
    sql = operands.each([operands.sql(product, "value")])
    return operands.in_order(sql)["r0"].cast(column.type)


def student(degrees: float) -> float:
    """Student's t for a two-sided 95 % and so many degrees of freedom, 1 at least."""
    inverse = 1 / max(degrees, 1.0)
    return math.exp(sum(factor * inverse**power for power, factor in enumerate(_STUDENT)))


def _sql_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return {pa.int64(): "BIGINT", pa.uint64(): "UBIGINT", pa.float64(): "DOUBLE"}[kind]
