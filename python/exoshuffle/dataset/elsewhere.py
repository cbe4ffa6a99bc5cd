"""Names of pandas, Polars, Ray Data and Spark that mean nothing here, with what to write instead.

Why not aliases: each of them would promise what a lazy dataset without numbers of rows cannot give, or cannot give at
the price that the name suggests.
"""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle.errors import OptionsError

_ONE_BY_ONE = "write map_batches(function), which gets a pyarrow.Table, or expressions"
_FILES = "write xs.read_parquet and its siblings, which are lazy"

#: Attributes of datasets.
ON_DATASETS = {
    "map": _ONE_BY_ONE,
    "flat_map": _ONE_BY_ONE,
    "apply": _ONE_BY_ONE,
    "applymap": _ONE_BY_ONE,
    "map_rows": _ONE_BY_ONE,
    "collect": "write to_arrow(), to_polars(), iter_batches() or write_parquet(path)",
    "lazy": "a dataset is lazy as it is",
    "iloc": "rows have no numbers; write limit(n), or filter(condition)",
    "loc": "write filter(condition) for rows, and select(names) for columns",
    "at": "write filter(condition) for rows, and select(names) for columns",
    "index": "rows have no index; write with the names of columns",
    "set_index": "rows have no index; write with the names of columns",
    "reset_index": "rows have no index, so there is nothing to reset",
    "info": "print(dataset) shows the columns, and describe() their values",
    "values": "write to_numpy()",
    "randomize_block_order": "write random_shuffle(window=) for a cheap shuffle",
    "random_sample": "write sample(fraction=, seed=)",
    "take_batch": "write head(n), or to_numpy() of limit(n)",
    "num_blocks": "explain() tells the partitions",
    "stats": "explain() tells the plan and its cost",
    "add_column": "write with_column(name, expression)",
    "split": "write repartition(n) for parts, or sample(n) for some rows",
    "random_split": "write sample(fraction=, seed=) for a part of the rows",
    "train_test_split": "write sample(fraction=, seed=) for a part of the rows",
    "iter_torch_batches": 'write iter_batches(batch_format="numpy"), and torch.as_tensor() of its arrays',
    "to_torch": 'write iter_batches(batch_format="numpy"), and torch.as_tensor() of its arrays',
    "nunique": 'write group_by().agg(n=("x", "count_distinct"))',
    "n_unique": 'write group_by().agg(n=("x", "count_distinct"))',
    "withColumn": "write with_column(name, expression)",
    "groupBy": "write group_by(names)",
    "orderBy": "write sort(names)",
}

#: Attributes of groups.
ON_GROUPS = {
    "apply": "write map_groups(function)",
    "transform": "write map_groups(function)",
    "len": "write count()",
    "nunique": 'write agg(n=("x", "count_distinct"))',
    "n_unique": 'write agg(n=("x", "count_distinct"))',
}

_SHUFFLED = 'write random_shuffle(window="64MB") before iter_batches()'
_MEMORY = "write memory= for what the function takes; as many run at once as have room"
_CLOSED = "write a function that has them: functools.partial(function, ...), or a lambda"
#: Arguments of methods.
ARGUMENTS = {
    "map_batches": {
        "batch_size": "a function gets the rows that a task has at hand; cut them in it, by to_batches(n)",
        "num_cpus": _MEMORY,
        "num_gpus": _MEMORY,
        "concurrency": _MEMORY,
        "compute": _MEMORY,
        "fn_args": _CLOSED,
        "fn_kwargs": _CLOSED,
        "zero_copy_batch": "a function never gets rows that it could change for others; leave it out",
    },
    "iter_batches": {
        "local_shuffle_buffer_size": _SHUFFLED,
        "local_shuffle_seed": _SHUFFLED,
        "prefetch_batches": "the next parts are made while the program looks at one; leave it out",
    },
}

#: Polars' names of types, and the texts that ``cast`` and ``schema=`` take for them.
TYPES = {
    "Boolean": "bool",
    "Date": "date",
    "Datetime": "timestamp",
    "Float32": "float32",
    "Float64": "float64",
    "Int8": "int8",
    "Int16": "int16",
    "Int32": "int32",
    "Int64": "int64",
    "String": "text",
    "Time": "time",
    "UInt8": "uint8",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
    "Utf8": "text",
}
#: Attributes of the package.
ON_PACKAGE = {
    "DataFrame": "write from_pydict(columns), from_items(rows) or from_pandas(frame)",
    "LazyFrame": "write from_pydict(columns), from_items(rows) or from_polars(frame)",
    "Series": "a dataset has columns by name; write from_pydict({name: values})",
    "from_numpy": "write from_pydict({name: array})",
    "from_dicts": "write from_items(rows)",
    "scan_parquet": _FILES,
    "scan_csv": _FILES,
    "scan_ndjson": _FILES,
    "read_ndjson": "write read_json(paths), which reads JSON lines",
    "read_feather": "write read_ipc(paths)",
    "read_binary_files": "write read_binary(paths)",
}


def refuse_arguments(call: str, given: Iterable[str]) -> None:
    """Raises ``OptionsError`` for arguments that other libraries have; ``TypeError`` for others, as Python does."""
    for name in given:
        if name not in ARGUMENTS[call]:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
        raise OptionsError(f"{call} has no argument {name!r}; {ARGUMENTS[call][name]}")
