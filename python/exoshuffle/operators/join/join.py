"""Joins: the columns of a join, and the rows of one of its partitions.

Guarantee: the result is SQL's, whatever types the columns have: null matches nothing, NaN equals NaN, −0.0 equals 0.0
(``keys``). Rows come in the order of the left side, and for each of them in the order of the right side. Rows of the
right side that match nothing come last, in their order. Memory does not depend on the number of rows of the result.

How: DuckDB finds row numbers from keys (``pairs``), and pyarrow picks the rows (``payload``). Why not the whole
join in DuckDB: it has no dictionaries, durations or wide decimals, and its pairs come in an order of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.errors import OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.join.keys import JoinKey, cast_key, comparable, parse_key
from exoshuffle.operators.join.outputs import (
    Output,
    batches_of_pairs,
    columns_of,
    refuse_duplicates,
)
from exoshuffle.operators.join.pairs import (
    Pairs,
    in_windows,
    match,
    match_all,
    matched,
    pair_windows,
    unmatched,
)
from exoshuffle.operators.join.payload import batch_rows, make_payload
from exoshuffle.operators.join.ranges import Range, ranged_pairs
from exoshuffle.operators.join.sides import JoinSide, join_sides
from exoshuffle.operators.steps.columns import Select
from exoshuffle.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

HOWS = ("inner", "left", "right", "full", "semi", "anti", "cross")
#: Names of pandas and Spark for the same joins.
_ALIASES = {
    "outer": "full",
    "full_outer": "full",
    "fullouter": "full",
    "left_outer": "left",
    "leftouter": "left",
    "right_outer": "right",
    "rightouter": "right",
    "left_semi": "semi",
    "leftsemi": "semi",
    "left_anti": "anti",
    "leftanti": "anti",
}
#: Joins that keep rows of the left side, or of the right side, even if these match nothing.
_KEEPS_LEFT = ("left", "full")
_KEEPS_RIGHT = ("right", "full")
#: Joins whose right side only decides which rows of the left side stay; its keys are enough.
_LEFT_ONLY = ("semi", "anti")


@dataclass(frozen=True)
class JoinOptions:
    """The options of a join.

    Attributes:
        on: Key columns that both sides have under the same name; each appears once in the result.
        left_on: Instead of ``on``: key columns of the left side; they appear in the result.
        right_on: As many columns of the right side; they appear, too.
        how: ``inner``, ``left``, ``right``, ``full``, ``semi``, ``anti`` or ``cross``, or one of ``_ALIASES``.
        suffix: Added to columns of the right side whose names the left side has too.
    """

    on: Sequence[str] | None = None
    left_on: Sequence[str] | None = None
    right_on: Sequence[str] | None = None
    how: str = "inner"
    suffix: str = "_right"


@dataclass(frozen=True)
class Join:
    """A join of two schemas; made by ``parse_join``.

    Attributes:
        left: Schema of the left side.
        right: Schema of the right side.
        keys: The columns that must be equal; none in a cross join.
        how: One of ``HOWS``.
        outputs: The columns of the result.
        ranges: In a cross join, comparisons without which a filter behind it drops a pair anyway.
    """

    left: pa.Schema
    right: pa.Schema
    keys: tuple[JoinKey, ...]
    how: str
    outputs: tuple[Output, ...]
    ranges: tuple[Range, ...] = ()

    @property
    def output_schema(self) -> pa.Schema:
        """The schema of the result."""
        import pyarrow as pa

        return pa.schema([output.field for output in self.outputs])

    def narrowed(self, names: frozenset[str]) -> Join:
        """Returns the same join with only these columns in its result, and only the columns that it needs before."""
        import pyarrow as pa

        outputs = tuple(output for output in self.outputs if output.field.name in names)
        outputs = outputs or self.outputs[:1]  # a column carries the number of rows

        def only(schema: pa.Schema, names: set[str]) -> pa.Schema:
            return pa.schema([field for field in schema if field.name in names], schema.metadata)

        left = {*columns_of("left", outputs), *(key.left for key in self.keys)}
        right = {*columns_of("right", outputs), *(key.right for key in self.keys)}
        left |= {each.left for each in self.ranges}
        right |= {each.right for each in self.ranges}
        sides = only(self.left, left), only(self.right, right)
        return dataclasses.replace(self, left=sides[0], right=sides[1], outputs=outputs)

    @property
    def sides(self) -> tuple[JoinSide, JoinSide]:
        """The work of the maps of both sides, so that equal keys meet; in a cross join none do."""
        names = dict.fromkeys(key.right for key in self.keys)
        only_keys = (Select(tuple(names)),) if self.how in _LEFT_ONLY else ()
        return join_sides(self.left, self.right, self.keys, only_keys)

    def result_rows(self, num_rows: Sequence[int]) -> int:
        """Estimates the rows of the result, from those of both sides.

        It assumes that the keys of the side with fewer rows are unique, as in a table that others refer to. It also
        assumes that every row of the other side has its match.
        """
        if self.how in _LEFT_ONLY:
            return num_rows[0]
        return num_rows[0] * num_rows[1] if self.how == "cross" else max(num_rows)

    def result_bytes(self, num_rows: Sequence[int], num_bytes: Sequence[int]) -> int:
        """Estimates the bytes of the result, from the rows of both sides and their bytes; see ``result_rows``."""
        if self.how in _LEFT_ONLY:
            return num_bytes[0]
        rows = self.result_rows(num_rows)
        pairs = zip(num_bytes, num_rows, strict=True)
        return sum(size * rows // max(count, 1) for size, count in pairs)

    def run(self, left: pa.Table, right: pa.Table) -> Iterator[pa.RecordBatch]:
        """Joins two tables: a partition with all rows of its keys, or a part of the left side and the whole right.

        A right or full join also needs all of the left side, to know which rows matched nothing.

        Args:
            left: Rows of the left side; columns that its schema lacks, such as hidden ones, do not matter.
            right: Rows of the right side.

        Raises:
            InputError: A key of a right or full join does not fit the common type of both sides.
            MemoryLimitError: DuckDB finds no memory; nothing was yielded then.

        Cost: that of ``pairs.match``, and one copy of the result. Memory beside the tables: a copy of columns that
        are not in one piece, that of ``pairs``. Also three batches of at most 16 MB or one row. Right and full joins
        also take 8 bytes for each row of the right side that matches nothing.
        """
        sides = (
            make_payload(left, columns_of("left", self.outputs)),
            make_payload(right, columns_of("right", self.outputs)),
        )
        matching, rest = self._found(left, right, batch_rows(sides))
        for pairs in matching:
            yield from batches_of_pairs(self.outputs, sides, pairs)
        of_right = [
            dataclasses.replace(output, left=None) if output.right else output
            for output in self.outputs
        ]
        for pairs in rest:
            yield from batches_of_pairs(of_right, sides, pairs)

    def _found(
        self, left: pa.Table, right: pa.Table, num_pairs: int
    ) -> tuple[Iterator[Pairs], Iterator[Pairs]]:
        """Returns the pairs whose left row is in the result, and the other right rows that are.

        DuckDB has done its work then. So a join without memory has handed over nothing, and can be done otherwise.
        """
        if self.ranges:
            return ranged_pairs(left, right, self.ranges, num_pairs), iter(())
        if self.how == "cross":
            matches = match_all(left.num_rows, right.num_rows)
            return pair_windows(matches, 0, num_pairs), iter(())
        keys = self._keys(left, right)
        rest = unmatched(*reversed(keys)) if self.how in _KEEPS_RIGHT else _nothing(0)
        alone = (Pairs(_nothing(len(rows)), rows) for rows in in_windows(rest, num_pairs))
        return self._pairs(keys, num_pairs), alone

    def _pairs(self, keys: tuple[pa.Table, pa.Table], num_pairs: int) -> Iterator[Pairs]:
        if self.how in _LEFT_ONLY:
            rows = matched(*keys) if self.how == "semi" else unmatched(*keys)
            return (Pairs(some, _nothing(len(some))) for some in in_windows(rows, num_pairs))
        return pair_windows(match(*keys), int(self.how in _KEEPS_LEFT), num_pairs)

    def _keys(self, left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Returns the key columns of both sides in their common types, under the same names."""
        return (
            comparable([cast_key(left.column(key.left), key.type) for key in self.keys]),
            comparable([cast_key(right.column(key.right), key.type) for key in self.keys]),
        )


def parse_join(left: pa.Schema, right: pa.Schema, options: JoinOptions) -> Join:
    """Returns the join of two schemas.

    Raises:
        OptionsError: An unknown ``how``, keys that are missing or contradict each other, or two columns of one name.
        SchemaError: An unknown column, or key columns whose types cannot be compared.
    """
    how = _ALIASES.get(options.how, options.how)
    if how not in HOWS:
        raise OptionsError(f"how is {options.how!r}; it must be one of {', '.join(HOWS)}")
    if not isinstance(options.suffix, str):
        raise OptionsError(f"suffix is {options.suffix!r}; it must be text, such as '_right'")
    names = _key_names(options, how)
    keys = tuple(parse_key(name, other, left, right) for name, other in names)
    if how in _LEFT_ONLY:
        outputs = [Output(field, field.name) for field in left]
        return Join(left, right, keys, how, tuple(outputs))
    shared = {key.left: key for key in keys} if options.on is not None else {}
    outputs = [_left_output(field, right, shared, how) for field in left]
    lefts = frozenset(left.names)
    outputs += [
        _right_output(field, lefts, options.suffix, how)
        for field in right
        if field.name not in shared
    ]
    refuse_duplicates("join", [output.field.name for output in outputs], options.suffix)
    return Join(left, right, keys, how, tuple(outputs))


def _key_names(options: JoinOptions, how: str) -> list[tuple[str, str]]:
    if how == "cross":
        if options.on is not None or options.left_on is not None or options.right_on is not None:
            raise OptionsError("a cross join has no keys; leave out on=, left_on= and right_on=")
        return []
    lefts = options.left_on if options.on is None else options.on
    rights = options.right_on if options.on is None else options.on
    if options.on is not None and (options.left_on is not None or options.right_on is not None):
        raise OptionsError("join has on= and left_on= or right_on=; give one or the other")
    if not lefts or not rights:
        raise OptionsError(
            f'a join with how="{how}" needs keys: on=, or both left_on= and right_on='
        )
    if len(lefts) != len(rights):
        raise OptionsError(
            f"left_on has {counted(len(lefts), 'column')} and right_on {len(rights)}; they must be as many"
        )
    # One column may have to be equal to several others.
    return list(dict.fromkeys(zip(lefts, rights, strict=True)))


def _left_output(field: pa.Field, right: pa.Schema, shared: dict[str, JoinKey], how: str) -> Output:
    """Returns a column of the left side; a shared key in right and full joins takes values of both sides."""
    key = shared.get(field.name)
    if key is None or how not in _KEEPS_RIGHT:
        return Output(field.with_nullable(field.nullable or how in _KEEPS_RIGHT), field.name)
    other = right.field(key.right)
    # Every row of a right join has a row of the right side; its key is equal.
    nullable = other.nullable or (how == "full" and field.nullable)
    kind = field.type if field.type == other.type else key.type
    return Output(field.with_type(kind).with_nullable(nullable), field.name, key.right)


def _right_output(field: pa.Field, left: frozenset[str], suffix: str, how: str) -> Output:
    name = field.name + suffix if field.name in left else field.name
    made = field.with_name(name).with_nullable(field.nullable or how in _KEEPS_LEFT)
    return Output(made, right=field.name)


def _nothing(count: int) -> pa.Array:
    """Returns so many nulls, the row numbers of no row."""
    import pyarrow as pa

    return pa.nulls(count, pa.int64())
