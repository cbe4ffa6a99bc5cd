"""The steps of a sample: every row gets a pseudo-random number, and rows with small numbers are kept.

Guarantee: the number depends only on a seed and on which row it is, (source, row in the source). It does not depend on
how the input was cut, nor on its reader. It equals that of a random shuffle (``crates/kernels/src/permutation.rs``; a
test compares them). So the n rows with the smallest numbers are the first n of a random shuffle with the same seed.

Why not in the native module: there numbers are part of the rows that travel, and a sample may need no shuffle. Here
they are a column that later steps carry along. Cost: 40 ns per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.arrow_values import scalar_of
from exoshuffle.operators.batches import movable, neighbours, picking, streamed, tables_of
from exoshuffle.operators.steps.place import Place
from exoshuffle.operators.steps.step import RowNumbers, Step

if TYPE_CHECKING:
    import pyarrow as pa

#: The finaliser of SplitMix64 after its increment, as in ``crates/kernels/src/mix.rs``.
_INCREMENT = 0x9E37_79B9_7F4A_7C15
_ROUNDS = ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB))
_LAST_SHIFT = 31
_MAX = 2**64 - 1


def mix(values: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    """Turns 64 bits into 64 bits that look random; ``values`` is a uint64 array or scalar."""
    import pyarrow.compute as pc

    mixed = pc.add(values, uint64(_INCREMENT))
    for shift, factor in _ROUNDS:
        mixed = pc.bit_wise_xor(mixed, pc.shift_right(mixed, uint64(shift)))
        mixed = pc.multiply(mixed, uint64(factor))
    return pc.bit_wise_xor(mixed, pc.shift_right(mixed, uint64(_LAST_SHIFT)))


def numbers(seed: int, source: int, first_row: int, count: int) -> pa.Array:
    """Returns the numbers of ``count`` rows of a source from ``first_row`` on, as a uint64 array."""
    import pyarrow.compute as pc

    return _drawn(mix(pc.bit_wise_xor(mix(uint64(seed)), uint64(source))), first_row, count)


def _drawn(key: pa.Scalar, first: int, count: int) -> pa.Array:
    import pyarrow.compute as pc

    return mix(pc.add(mix(pc.bit_wise_xor(_counted(first, count), key)), key))


def _counted(first: int, count: int) -> pa.Array:
    """Returns ``count`` consecutive integers from ``first`` on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    before = uint64((first - 1) & _MAX)
    return pc.cumulative_sum(pa.repeat(uint64(1), count), start=before)


def numbers_within(window: int, seed: int, source: int, first_row: int, count: int) -> pa.Array:
    """Does what ``numbers`` does, but keeps windows of so many rows together."""
    import pyarrow.compute as pc

    low_bits = min(2 * window.bit_length() + 4, 40)
    first, last = first_row // window, (first_row + max(count, 1) - 1) // window
    key = mix(pc.bit_wise_xor(mix(uint64(seed)), uint64(source)))
    high = _drawn(mix(key), first, last - first + 1)
    high = pc.shift_left(pc.shift_right(high, uint64(low_bits)), uint64(low_bits))
    places = pc.add(_counted(0, count), uint64(first_row - first * window))
    low = pc.shift_right(_drawn(key, first_row, count), uint64(64 - low_bits))
    return pc.bit_wise_or(high.take(pc.divide(places, uint64(window))), low)


def numbers_at(seed: int, sources: pa.Array, rows: pa.Array, window: int | None = None) -> pa.Array:
    """Does what ``numbers`` or ``numbers_within`` do for rows of many sources, each given as a uint64."""
    import pyarrow.compute as pc

    key = mix(pc.bit_wise_xor(mix(uint64(seed)), sources))
    drawn = mix(pc.add(mix(pc.bit_wise_xor(rows, key)), key))
    if window is None:
        return drawn
    low_bits = min(2 * window.bit_length() + 4, 40)
    high_key = mix(key)
    windows = pc.divide(rows, uint64(window))
    high = mix(pc.add(mix(pc.bit_wise_xor(windows, high_key)), high_key))
    high = pc.shift_left(pc.shift_right(high, uint64(low_bits)), uint64(low_bits))
    return pc.bit_wise_or(high, pc.shift_right(drawn, uint64(64 - low_bits)))


def uint64(value: int) -> pa.Scalar:
    """Returns the number as a scalar of 64 bits: arithmetic with it wraps."""
    import pyarrow as pa

    return scalar_of(value, pa.uint64())


#: Of rows outside a task, which nobody numbers.
_NO_PLACE = Place.of_part(0)


@dataclass(frozen=True)
class Numbered(Step):
    """Adds the number of each row as a column.

    Attributes:
        seed: The seed of the numbers.
        column: Name of the column.
        level: How many numberings come before; a sample of a sample with the same seed is a new choice.
        window: Rows that stay together, if any do: see ``numbers_within``.
        place: Which rows these are; known in the task.
    """

    seed: int
    column: str
    level: int = 0
    window: int | None = None
    place: Place = _NO_PLACE

    @property
    def numbers(self) -> RowNumbers:
        """See ``Step``."""
        return RowNumbers(self.column, self.seed)

    def at(self, place: Place) -> Numbered:
        """Returns the step for rows of this place."""
        return replace(self, place=place)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        import pyarrow as pa

        return schema.append(pa.field(self.column, pa.uint64(), nullable=False))

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed - {self.column}

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    def numbers_from(self, row: int, count: int) -> pa.Array:
        """Returns the numbers of ``count`` rows of its place, from the one with number ``row`` on."""
        seed = self.seed
        for _ in range(self.level):
            seed = mix(uint64(seed)).as_py()
        number = numbers if self.window is None else partial(numbers_within, self.window)
        return number(seed, self.place.source, self.place.first_row + row, count)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow as pa

        schema = self.output_schema(batches.schema)
        field = schema.field(self.column)

        def numbered() -> Iterator[pa.Table]:
            row = 0
            # Numbering takes 0.5 ms however few rows there are: 5,000 batches of one row took 2.3 s.
            for group in neighbours(batches):
                sizes = [batch.num_rows for batch in group]
                made, start = self.numbers_from(row, sum(sizes)), 0
                for batch, size in zip(group, sizes, strict=True):
                    table = pa.Table.from_batches([batch])
                    yield table.append_column(field, made.slice(start, size))
                    start += size
                row += start

        return streamed(schema, numbered())


@dataclass(frozen=True)
class Chosen(Step):
    """Keeps each row with the same probability, by its number, whose column it drops.

    Attributes:
        fraction: The probability, above 0 and at most 1.
        column: Name of the column of numbers.
    """

    fraction: float
    column: str

    @property
    def largest(self) -> pa.Scalar:
        """The largest number of a row that is kept."""
        return uint64(max(1, int(self.fraction * 2**64)) - 1)

    @property
    def dropped(self) -> tuple[str, ...]:
        """See ``Step``."""
        return (self.column,)

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """See ``Step``."""
        return schema.remove(schema.get_field_index(self.column))

    def required(self, needed: frozenset[str], schema: pa.Schema) -> frozenset[str]:
        """See ``Step``."""
        del schema
        return needed | {self.column}

    def names_before(self, names: Mapping[str, str]) -> dict[str, str]:
        """See ``Step``."""
        return dict(names)

    def apply(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """See ``Step``."""
        import pyarrow.compute as pc

        schema = self.output_schema(batches.schema)
        largest = self.largest

        def kept(table: pa.Table) -> pa.Table:
            mask = pc.less_equal(table[self.column], largest)
            with picking(schema.types):
                return movable(table.drop_columns([self.column])).filter(mask).cast(schema)

        return streamed(schema, map(kept, tables_of(batches)))
