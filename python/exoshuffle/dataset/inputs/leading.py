"""Leaves out rows of files that cannot be among the first ones: of a limit, or of a sort behind which a limit comes.

Guarantee: the first rows are the same. A row group, or page, is left out if enough rows of others surely come before
all of its own. The bounds that files tell of the first key decide it. A step may drop rows, so inputs with filters keep
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from exoshuffle import _native
from exoshuffle.dataset.inputs.inputs import Input
from exoshuffle.dataset.inputs.narrowing import column_in_files, looked_into, without_lines
from exoshuffle.operators.arrow_values import int64, truth
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.kernels import call

if TYPE_CHECKING:
    import pyarrow as pa


def first_of(inputs: Sequence[Input], count: int) -> list[Input]:
    """Returns the inputs that have the first rows of all, without rows that surely are not among them."""
    found: list[Input] = []
    left = count
    for source in inputs:
        if found and left <= 0:
            break
        first = source.first(left)
        if all(step.keeps_all for step in first.steps):
            left -= first.known_rows or 0
        found.append(first)
    return found


def leading(source: Input, key: SortKey, count: int) -> Input:
    """Returns an input without the rows that cannot be among the first ``count`` by a key; other keys may follow it.

    Cost: as ``narrowing.narrowed``.
    """
    if count == 0 or not all(step.keeps_all for step in source.steps):
        return source

    def led(files: _native.Source) -> _native.Source:
        column = column_in_files(files, key.column, source.steps)
        if column is None:
            return files

        def without(files: _native.Source, detail: str) -> _native.Source:
            return without_lines(files, column, detail, lambda lines: _may_lead(lines, key, count))

        return looked_into(files, source.steps, without)

    return source.with_files(led)


def _may_lead(spread: pa.Table, key: SortKey, count: int) -> list[bool]:
    """Says for each line of a spread whether it may have one of the first rows."""
    import pyarrow as pa

    # All values of a line are at least as early as its last one, and none is earlier than its first.
    last, first = ("low", "high") if key.descending else ("high", "low")
    everything = [True] * spread.num_rows
    try:
        order = call("sort_indices", spread.column(last)).to_pylist()
    except pa.ArrowException:  # a type that pyarrow does not sort
        return everything
    # Lines without a value come last.
    known = order[: len(order) - spread.column(last).null_count]
    bound, seen = None, 0
    for line in reversed(known) if key.descending else known:
        nulls = spread.column("nulls")[line].as_py()
        seen += 0 if nulls is None else spread.column("rows")[line].as_py() - nulls
        if seen >= count:
            bound = spread.column(last)[line]
            break
    if bound is None:
        return everything
    comparison = "less" if key.descending else "greater"
    is_behind = _surely(comparison, spread.column(first), bound)
    if key.nulls_first:
        has_none = _surely("equal", spread.column("nulls"), int64(0))
        is_behind = call("and", is_behind, has_none)
    else:
        has_no_value = _surely("equal", spread.column("nulls"), spread.column("rows"))
        is_behind = call("or", is_behind, has_no_value)
    return [not behind for behind in is_behind.to_pylist()]


def _surely(comparison: str, values: pa.ChunkedArray, others: pa.ChunkedArray | pa.Scalar) -> Any:
    """Returns whether a comparison holds; not where a value is unknown."""
    return call("coalesce", call(comparison, values, others), truth(False))
