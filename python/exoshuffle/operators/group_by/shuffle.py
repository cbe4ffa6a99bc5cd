"""The shuffles that aggregate groups."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING

from exoshuffle.errors import SchemaError
from exoshuffle.operators.core.at_once import AtOnce, InParts
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys, by_hash, check_group_keys
from exoshuffle.operators.core.shuffle import Shuffle, Side, rows_config
from exoshuffle.operators.core.tasks import Finish
from exoshuffle.operators.gather.combined import Combined
from exoshuffle.operators.gather.finish import Alone, Gathered, Recounted
from exoshuffle.operators.gather.shuffle import gathered, meeting
from exoshuffle.operators.group_by.aggregate import MOST_AT_ONCE, GroupBy, Uncombined
from exoshuffle.operators.group_by.costs import finish_row_bytes
from exoshuffle.operators.group_by.counted import CountedValues
from exoshuffle.operators.group_by.direct import direct_groups
from exoshuffle.operators.group_by.kinds import Kept
from exoshuffle.operators.group_by.sparing import Sparing
from exoshuffle.operators.steps.step import Step

if TYPE_CHECKING:
    import pyarrow as pa

#: Memory if groups are few: the rows as Arrow, and 66 bytes for each value that is counted.
COUNT_PERCENT, COUNT_ROW_BYTES = 100, 80


def group_by_shuffle(grouping: GroupBy) -> Shuffle:
    """Returns a shuffle that aggregates groups of equal keys: in the maps as far as possible, then in the reduces.

    Raises:
        SchemaError: A key cannot be one.
    """
    check_group_keys(grouping.schema, grouping.keys)

    def narrowed(needed: frozenset[str]) -> Shuffle:
        wanted = tuple(item for item in grouping.aggregates if item.name in needed)
        if wanted == grouping.aggregates:
            return made
        # One aggregate at least, as everywhere.
        wanted = wanted or grouping.aggregates[:1]
        return group_by_shuffle(dataclasses.replace(grouping, aggregates=wanted))

    made = dataclasses.replace(_grouped(grouping), narrowed=narrowed)
    return made


def _grouped(grouping: GroupBy) -> Shuffle:
    finish = _finish(grouping)
    if not grouping.combines:
        whole = _aggregation(grouping, finish)
        return dataclasses.replace(whole, aggregation=direct_groups(grouping))
    values = CountedValues(grouping)
    recounted = _recounted(values)
    finish = dataclasses.replace(finish, recounted=recounted)
    shuffle = dataclasses.replace(
        _aggregation(grouping, finish), aggregation=direct_groups(grouping)
    )
    if not grouping.keys:
        return shuffle
    by_values = _by_values(values, recounted)
    combined = Combined(grouping.combined, grouping.partial_schema, finish, grouping.row_cost)
    plain = dataclasses.replace(_uncombined(grouping, combined), by_values=by_values)
    return dataclasses.replace(
        shuffle, plain=plain, combines=grouping.combining_pays, by_values=by_values
    )


def _uncombined(grouping: GroupBy, combined: Combined) -> Shuffle:
    """Returns the same shuffle without combining rows in maps."""
    plain = Uncombined(grouping.schema, grouping.keys, grouping.aggregates)
    return _aggregation(plain, dataclasses.replace(_finish(plain), combined=combined))


def _recounted(values: CountedValues) -> Recounted | None:
    """Returns how to divide groups by counted values; None if there are none, or rows cannot be dealt out by them."""
    grouping, result = values.grouping, values.result
    names, schema = list(values.columns.values()), grouping.partial_schema
    with contextlib.suppress(SchemaError):
        check_group_keys(schema, names)
        order = ByKeys(tuple(SortKey(name) for name in (*grouping.keys, *names)))
        counted = AtOnce(values.counted, result.partial_schema, tuple(schema.names))
        first = Gathered(rows_config(schema, order), (counted,))
        last = AtOnce(result.final, result.output_schema, tuple(result.partial_schema.names))
        keys = ByKeys(tuple(SortKey(key) for key in grouping.keys))
        end = Gathered(rows_config(result.partial_schema, keys), (last,))
        return (
            Recounted(Combined(values.spread, schema, first, grouping.row_cost), end)
            if names
            else None
        )
    return None


def _by_values(
    values: CountedValues, recounted: Recounted | None
) -> tuple[Shuffle, Shuffle] | None:
    """Returns two shuffles: rows meet by keys and counted values, then the results meet by keys.

    Returns None if that cannot be. Maps that send several rows of a key beside the values prevent it, too: those rows
    would not be divided.
    """
    grouping, result = values.grouping, values.result
    others = (part for part in grouping.parts if part not in values.columns)
    if recounted is None or any(isinstance(part.kind, Kept) for part in others):
        return None
    dealt = InParts(values.dealt, grouping.partial_schema, grouping.columns)
    ways: tuple[tuple[Finish, pa.Schema, tuple[Step, ...], pa.Schema], ...] = (
        (recounted.spread.finish, grouping.partial_schema, (dealt,), result.partial_schema),
        (recounted.last, result.partial_schema, (), result.output_schema),
    )
    first, second = (
        Shuffle(
            "group_by",
            (Side(travelling, finish.configs[0].order, steps),),
            by_hash,
            finish,
            schema,
            reduce_percent=COUNT_PERCENT,
            reduce_row_bytes=COUNT_ROW_BYTES,
        )
        for finish, travelling, steps, schema in ways
    )
    return first, second


def _finish(grouping: GroupBy) -> Gathered:
    final = AtOnce(grouping.final, grouping.output_schema, tuple(grouping.partial_schema.names))
    alone = Alone(*grouping.group_cost, sole=Alone(*grouping.sole_group_cost))
    made = gathered(grouping.partial_schema, grouping.keys, final)
    return dataclasses.replace(made, alone=alone, sparing=_sparing(grouping))


def _sparing(grouping: GroupBy) -> Gathered | None:
    """Returns the finish of groups for which memory is short; None where rows travel combined."""
    if grouping.combines:
        return None
    sparing = Sparing(grouping)
    final = AtOnce(sparing.final, grouping.output_schema, tuple(grouping.partial_schema.names))
    made = gathered(grouping.partial_schema, grouping.keys, final)
    return dataclasses.replace(made, alone=Alone(*sparing.cost))


def _aggregation(grouping: GroupBy, finish: Gathered) -> Shuffle:
    partial = InParts(
        grouping.partial, grouping.partial_schema, grouping.columns, grouping.row_cost
    )
    side = Side(partial.schema, finish.config.order, (partial,))
    made = meeting("group_by", grouping.keys, side, finish, grouping.output_schema)
    return dataclasses.replace(
        made,
        is_one_group=not grouping.keys,
        whole=finish.of_all,
        reduce_row_bytes=finish_row_bytes(grouping.aggregates, MOST_AT_ONCE),
    )
