"""The columns of a join's result, and its rows from pairs of row numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle.arguments import repeated
from exoshuffle.errors import InputError, OptionsError
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.join.pairs import Pairs
from exoshuffle.operators.join.payload import Payload, cut

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Output:
    """A column of the result.

    Attributes:
        field: Its name, its type, and whether it can be null.
        left: The column of the left side that it comes from, if any.
        right: The column of the right side, if any. If both are given, it is a key; the right one serves rows without
            left.
    """

    field: pa.Field
    left: str | None = None
    right: str | None = None


def columns_of(side: str, outputs: Sequence[Output]) -> list[str]:
    """Returns the columns of a side that the result needs."""
    names = [getattr(output, side) for output in outputs]
    return [name for name in names if name is not None]


def refuse_duplicates(operator: str, names: Sequence[str], suffix: str) -> None:
    """Raises ``OptionsError`` if two columns would have the same name."""
    twice = repeated(names)
    if twice:
        raise OptionsError(
            f"{operator} would make two columns named {twice[0]!r} with suffix={suffix!r}; choose another suffix"
        )


def batches_of_pairs(
    outputs: Sequence[Output], sides: tuple[Payload, Payload], pairs: Pairs
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some pairs."""
    import pyarrow as pa

    schema = pa.schema([output.field for output in outputs])
    for some in cut(pairs, *sides):
        left, right = sides[0].rows(some.left), sides[1].rows(some.right)
        columns = [
            _cast(
                right.column(output.right) if output.left is None else left.column(output.left),
                output,
            )
            for output in outputs
        ]
        yield from pa.Table.from_arrays(columns, schema=schema).to_batches()


def _cast(column: pa.ChunkedArray, output: Output) -> pa.ChunkedArray:
    """Returns a column in the type of the result: rows were picked in the plain type, or have the type of one side."""
    import pyarrow as pa

    kind = output.field.type
    if column.type == kind:
        return column
    try:
        # As with keys, integers beyond 2**53 are rounded to doubles.
        return column.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid as error:
        raise InputError(
            f"a value of key {output.field.name!r} does not fit {kind}, the type of both sides: {error}"
        ) from None
