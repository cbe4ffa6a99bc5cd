"""The source that each row of a mixture comes from, found by arithmetic.

Guarantee: at the end of each portion, every source has had its share of the rows so far, to within less than one row.
Where a source has ended, shares are those of the rows since then. Within a portion the sources come in random
order. Both follow from sizes, weights and seed, so any row can be gone on from.

Why a portion has a row of each source at least: shares are rounded at the ends of portions. A rounded share may fall
from one row to the next, but not over so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import scalar_of
from exoshuffle.operators.steps.sample import numbers

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a portion, unless a source has less than one row in so many.
PORTION_ROWS = 1024
#: Most rows of a portion: their sources take 4 MB, and their random numbers 8.
MAX_PORTION_ROWS = 2**20
#: Rows whose random numbers are drawn at once.
_DRAWN_ROWS = 65_536
Stop = Literal["first", "all", "once"]


def portion_rows(weights: Sequence[Fraction]) -> int:
    """Returns how many rows a portion has: at least one of each source.

    Raises:
        OptionsError: There are sources of which that would be too many.
    """
    least, total = min(weights), sum(weights)
    if least * MAX_PORTION_ROWS < total:
        raise OptionsError(
            f"weights of a mixture have {float(least):g} of {float(total):g} in all, and one of "
            f"{MAX_PORTION_ROWS:,} is the least; concat() datasets of so few rows with others"
        )
    return max(PORTION_ROWS, -(-total // least))


class Portion(NamedTuple):
    """Neighbouring rows of a mixture.

    Attributes:
        start: Number of the first row.
        before: Rows of each source that came before.
        counts: Rows of each source in it.
    """

    start: int
    before: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts)

    def sources(self, drawn: pa.Array) -> pa.Array:
        """Returns the number of the source of each row, given a random number for each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        runs = [
            pa.repeat(scalar_of(source, pa.int32()), count)
            for source, count in enumerate(self.counts)
        ]
        in_turn = pa.concat_arrays(runs)
        return in_turn.take(pc.array_sort_indices(drawn))


@dataclass(frozen=True)
class _Phase:
    """Rows during which the same sources take part.

    Attributes:
        start: Number of the first row.
        num_rows: How many rows it has.
        before: Rows of each source that came before.
        shares: For each source, its share of the rows.
        first: The source that ends it.
        rounds_up: Whether the share of that source is rounded up.
    """

    start: int
    num_rows: int
    before: tuple[int, ...]
    shares: tuple[Fraction, ...]
    first: int
    rounds_up: bool

    def after(self, num_rows: int) -> tuple[int, ...]:
        """Returns how many rows each source has had when so many of these rows have come.

        Sums of shares are rounded, and not the shares, so that the numbers add up to that of the rows.
        """
        had = list(self.before)
        end, bound = 0, Fraction(0)
        for source in (self.first, *(each for each in range(len(had)) if each != self.first)):
            bound += self.shares[source]
            start, end = end, _rounded(num_rows * bound, up=self.rounds_up)
            had[source] += end - start
        return tuple(had)


class Picks:
    """The rows of an epoch of a mixture.

    Args:
        sizes: Rows of each source.
        weights: The weight of each source.
        stop: See ``mix``.

    Raises:
        OptionsError: See ``portion_rows``.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[Fraction], stop: Stop) -> None:
        self.sizes = tuple(sizes)
        self._portion_rows = portion_rows(weights)
        nothing = (0,) * len(sizes)
        if stop == "all":
            self._phases = [_until_all(sizes, weights)]
        else:
            self._phases = [_until_first(0, nothing, sizes, weights)]
        while stop == "once" and self.num_rows < sum(sizes):
            self._phases.append(_until_first(self.num_rows, self.had(), sizes, weights))

    @property
    def num_rows(self) -> int:
        """How many rows an epoch has."""
        last = self._phases[-1]
        return last.start + last.num_rows

    def had(self) -> tuple[int, ...]:
        """Returns how many rows of each source come in an epoch; those that repeat count again."""
        last = self._phases[-1]
        return last.after(last.num_rows)

    def portions(self, row: int) -> Iterator[Portion]:
        """Yields the portions of the epoch, from the one on that a row is in."""
        for phase in self._phases:
            # A last portion of few rows would have none of some sources, so the portion before it has them, too.
            num_portions = max(1, phase.num_rows // self._portion_rows)
            skipped = min(max(0, row - phase.start) // self._portion_rows, num_portions - 1)
            if row >= phase.start + phase.num_rows:
                continue
            before = phase.after(skipped * self._portion_rows)
            for number in range(skipped, num_portions):
                is_last = number + 1 == num_portions
                end = phase.num_rows if is_last else (number + 1) * self._portion_rows
                after = phase.after(end)
                counts = tuple(stop - start for start, stop in zip(before, after, strict=True))
                yield Portion(phase.start + number * self._portion_rows, before, counts)
                before = after

    def sources(self, seed: int, row: int) -> Iterator[pa.Array]:
        """Yields the number of the source of each row from one on, for some rows at a time."""
        for portions in _groups(self.portions(row)):
            start = portions[0].start
            drawn = numbers(seed, 0, start, sum(portion.num_rows for portion in portions))
            for portion in portions:
                sources = portion.sources(drawn.slice(portion.start - start, portion.num_rows))
                yield sources.slice(max(0, row - portion.start))

    def before(self, seed: int, row: int) -> tuple[int, ...]:
        """Returns how many rows of each source come before a row of the epoch."""
        portion = next(self.portions(row))
        sources = portion.sources(numbers(seed, 0, portion.start, portion.num_rows))
        came = counts_of(sources.slice(0, row - portion.start), len(self.sizes))
        return tuple(before + count for before, count in zip(portion.before, came, strict=True))


def counts_of(sources: pa.Array, num_sources: int) -> tuple[int, ...]:
    """Returns how many rows each source has among some rows."""
    found = {count["values"]: count["counts"] for count in sources.value_counts().to_pylist()}
    return tuple(found.get(source, 0) for source in range(num_sources))


def _groups(portions: Iterator[Portion]) -> Iterator[list[Portion]]:
    """Yields portions whose random numbers are drawn at once: one by one that took 0.2 ms a portion."""
    group: list[Portion] = []
    for portion in portions:
        group.append(portion)
        if portion.start + portion.num_rows - group[0].start >= _DRAWN_ROWS:
            yield group
            group = []
    if group:
        yield group


def _until_first(
    start: int, had: tuple[int, ...], sizes: Sequence[int], weights: Sequence[Fraction]
) -> _Phase:
    """Returns the rows until the first source is at its end, of those that are not yet."""
    left = [size - count for size, count in zip(sizes, had, strict=True)]
    kept = [weight if rows else Fraction(0) for weight, rows in zip(weights, left, strict=True)]
    shares = tuple(weight / sum(kept) for weight in kept)
    ends = {source: left[source] / share for source, share in enumerate(shares) if share}
    first = min(ends, key=ends.__getitem__)
    return _Phase(start, _rounded(ends[first], up=False), had, shares, first, rounds_up=True)


def _until_all(sizes: Sequence[int], weights: Sequence[Fraction]) -> _Phase:
    """Returns the rows until the last source is at its end; others begin again."""
    shares = tuple(weight / sum(weights) for weight in weights)
    ends = [size / share for size, share in zip(sizes, shares, strict=True)]
    last = ends.index(max(ends))
    num_rows = _rounded(ends[last], up=True)
    return _Phase(0, num_rows, (0,) * len(sizes), shares, last, rounds_up=False)


def _rounded(value: Fraction, *, up: bool) -> int:
    return -(-value.numerator // value.denominator) if up else value.numerator // value.denominator
