"""Hive directories as output: rows are shuffled by the partition columns, so that each value gets files of its own.

Guarantee: rows with equal values are in one file. Where a target size or the memory limit asks for it, they are in
several files that follow each other by name. In a folder rows keep their order: that of the last sort, if there was
one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exoshuffle.dataset.inputs.inputs import Input, evenly
from exoshuffle.dataset.jobs.shuffle import ShuffleJob
from exoshuffle.dataset.tree.nodes import Node, ShuffleNode, ShuffleOptions
from exoshuffle.errors import OutputError, SchemaError
from exoshuffle.futures import Ref, Value, get, remote
from exoshuffle.operators.core.inputs import MapInput
from exoshuffle.operators.core.keys import SortKey
from exoshuffle.operators.core.order import ByKeys
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.core.sinks import PartFile
from exoshuffle.operators.core.streams import as_reader, own_errors
from exoshuffle.operators.repartition.shuffle import partition_by_shuffle
from exoshuffle.operators.sort.shuffle import sort_keys
from exoshuffle.operators.sql.parsing import column
from exoshuffle.operators.sql.relational import plain
from exoshuffle.operators.steps.columns import Select
from exoshuffle.operators.steps.step import executor_of, functions_bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: Most folders of an output: each takes a file or more, and a file takes milliseconds.
MAX_FOLDERS = 10_000
#: Number of items of the input that are sampled for the number of folders, and of rows from each.
SAMPLED_ITEMS = 8
SAMPLED_ROWS = 20_000


def check_partition_by(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raises ``SchemaError`` unless these columns can become folders, and others remain."""
    for name in names:
        column(name, schema)  # raises for an unknown column
    if len(names) == len(schema.names):
        raise SchemaError(
            "partition_by names all columns, so files would have none; leave out one, or copy one by with_columns()"
        )
    for name in names:
        if not name or name.startswith("."):
            raise SchemaError(
                f"partition_by names column {name!r}, whose folders {name + '='!r} readers leave out or have no name "
                "for; rename it"
            )
        kind = schema.field(name).type
        if not _is_written_as_text(kind):
            raise SchemaError(
                f"partition_by names column {name!r} of type {kind}, whose values cannot name folders; cast it to "
                "text, an integer, a date or a timestamp"
            )


def _is_written_as_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    fitting = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_date32,
        pa.types.is_timestamp,
        pa.types.is_decimal,
    )
    return any(is_one(kind) for is_one in fitting)


def partitioned(node: Node, names: tuple[str, ...]) -> Node:
    """Returns the tree whose parts have the rows of each folder next to each other.

    If the tree ends in a sort, the same shuffle does it, with its strategy.
    """
    if not names:
        return node
    behind: tuple[SortKey, ...] = ()
    options, child = ShuffleOptions(), node
    if isinstance(node, ShuffleNode) and (keys := sort_keys(node.shuffle)) is not None:
        behind = tuple(key for key in keys if key.column not in names)
        options, child = ShuffleOptions(node.options.strategy), node.children[0]
    return ShuffleNode((child,), partition_by_shuffle(node.schema, names, behind), options)


def check_folders(files: Sequence[PartFile], names: Sequence[str]) -> None:
    """Raises ``OutputError`` where files lie in more folders than an output may have."""
    _check_number(len({file["name"].rpartition("/")[0] for file in files}), names, "")


def estimated_folders(job: ShuffleJob, names: tuple[str, ...]) -> int:
    """Estimates how many folders the output of a job will have.

    Values that only one sampled item has are assumed to be as frequent in the other items.

    Raises:
        OutputError: The sampled rows alone have too many.

    Cost: reads some thousand rows of these columns in a few places.
    """
    everything = [
        (source, index, item)
        for (source, _), items in zip(job.inputs, job.items, strict=True)
        for index, item in enumerate(items)
        if item is not None  # the block is not made yet
    ]
    chosen = evenly(everything, SAMPLED_ITEMS)
    found = get([_values_in(source, job, names, index, item) for source, index, item in chosen])
    seen: dict[object, int] = {}
    for values in found:
        for value in values:
            seen[value] = seen.get(value, 0) + 1
    _check_number(len(seen), names, "at least ")
    alone = sum(count == 1 for count in seen.values())
    return len(seen) + alone * (len(everything) - len(chosen)) // max(len(chosen), 1)


def _values_in(
    source: Input, job: ShuffleJob, names: tuple[str, ...], index: int, item: Value
) -> Ref:
    import pyarrow as pa

    schema = job.shuffle.schema
    kept = pa.schema([schema.field(name) for name in names])
    order = ByKeys(tuple(SortKey(name) for name in names))
    map_input = source.map_input(Side(kept, order, (Select(names),)))
    executor = executor_of("thread", source.steps)
    memory = job.plan.map_memory_bytes + functions_bytes(source.steps)
    code = functools.partial(distinct_values, map_input, names)
    run = remote(code, name="folders", memory=memory, executor=executor)
    return run.remote(index, item)


def distinct_values(
    map_input: MapInput, names: Sequence[str], index: int, item: Value
) -> list[object]:
    """Task: returns the values that the first rows of an item have in some columns."""
    import pyarrow as pa

    read = []
    with own_errors():
        batches = as_reader(map_input.rows(index, item))
        for batch in batches:
            read.append(batch.select(list(names)))
            if sum(one.num_rows for one in read) >= SAMPLED_ROWS:
                break
    table = pa.Table.from_batches(read, batches.schema).slice(0, SAMPLED_ROWS)
    texts = [plain(table.column(name)).cast(pa.string()).to_pylist() for name in names]
    return list(dict.fromkeys(zip(*texts, strict=True)))


def _check_number(number: int, names: Sequence[str], bound: str) -> None:
    if number > MAX_FOLDERS:
        raise OutputError(
            f"partitioning by {', '.join(names)} makes {bound}{number:,} folders, and an output has {MAX_FOLDERS:,} at "
            "most; partition by coarser values, such as date_trunc('month', day), or sort by them"
        )
