"""Arguments of pandas, Polars, Ray Data, Spark and PyTorch that functions here lack, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle.errors import OptionsError

_SHUFFLED = 'write random_shuffle(window="64MB") before iter_batches()'
_DIRECTION = "write descending="
_DELIMITED = "write delimiter="
_HEADED = "write header=True or header=False"
_TYPED = "write schema={name: type}"
_CHOSEN = "write select(names), which reads these columns alone"
_FIRST = "write limit(n)"
_NULLS = "write null_values="
_SKIPPED = "write skip_rows="
_BAD_ROWS = 'write bad_rows="skip", or the path of a file for them'
_NO_INDEX = "rows have no index; leave it out"
_GUESSED = "dates and timestamps are found by themselves; write schema={name: type} for others"
_LAZY = "rows are read as they are asked for; leave it out"
#: Those of functions that read tables in any format.
_READ = {
    **dict.fromkeys(("columns", "usecols"), _CHOSEN),
    **dict.fromkeys(("nrows", "n_rows"), _FIRST),
    **dict.fromkeys(("index_col", "row_index_name"), _NO_INDEX),
    **dict.fromkeys(("low_memory", "chunksize", "lines", "memory_map"), _LAZY),
    **dict.fromkeys(
        ("hive_partitioning", "partitioning"), "folders key=value are columns; write hive="
    ),
    "filters": "write filter(condition), which reads less where it can",
    "engine": "there is one reader; leave it out",
    "compression": "names or first bytes of files tell; leave it out",
}
_TEXT = {
    **dict.fromkeys(("dtype", "dtypes", "schema_overrides"), _TYPED),
    **dict.fromkeys(("on_bad_lines", "ignore_errors"), _BAD_ROWS),
}
_WRITTEN = {
    "index": _NO_INDEX,
    "partition_cols": "write partition_by=",
    "num_rows_per_file": "write target_file_size=, in bytes",
}
_ANY_ORDER = "groups come in any order; sort the result"
_SEED = "write seed="
_OF_ONE = "name one column, as in sum(name), or write agg() for several"
_SAMPLED = "write shuffle=, and mix() for weights of datasets"
_NEW = "a dataset never changes, and what a method returns is another; leave it out"
_STRICT = "write drop([name for name in names if name in dataset.columns])"
_CARRIED = (
    "rows have no order by themselves; "
    "write with_columns(x='last_value(x IGNORE NULLS) OVER (PARTITION BY k ORDER BY t)')"
)
#: Arguments of functions and methods.
ARGUMENTS = {
    "read_parquet": _READ,
    "read_json": _READ | _TEXT,
    "read_csv": _READ
    | _TEXT
    | {
        **dict.fromkeys(("sep", "separator"), _DELIMITED),
        **dict.fromkeys(("has_header", "names", "new_columns"), f"{_HEADED}, and rename(columns)"),
        **dict.fromkeys(("na_values", "nullstr"), _NULLS),
        **dict.fromkeys(("skiprows", "skip_lines"), _SKIPPED),
        **dict.fromkeys(("parse_dates", "try_parse_dates", "date_format"), _GUESSED),
        "quotechar": "write quote=",
        "quote_char": "write quote=",
        "escapechar": "write escape=",
        "comment_prefix": "write comment=",
        "decimal": "write schema={name: \"text\"}, and cast(replace(name, ',', '.') as double)",
    },
    "write_parquet": _WRITTEN,
    "write_csv": _WRITTEN
    | dict.fromkeys(
        ("sep", "separator", "delimiter", "header", "include_header"),
        "CSV is written with commas and a header",
    ),
    "filter": {
        "fn": "write filter(function)",
        "with_indices": "rows have no numbers; write limit(n), or filter(condition)",
        "batched": "a function gets one row; write map_batches(function) for batches",
        "num_proc": "write concurrency=",
    },
    "sort": {
        "ascending": _DIRECTION,
        "reverse": _DIRECTION,
        "key": 'sort by an expression: sort("lower(name)")',
        "maintain_order": "equal rows keep their order anyhow; leave it out",
    },
    "group_by": {
        "maintain_order": _ANY_ORDER,
        "sort": _ANY_ORDER,
        "as_index": "rows have no index, so keys are columns; leave it out",
        "dropna": "null is a key; filter rows before, or the result",
        "observed": "groups are those that have rows; leave it out",
    },
    "sample": {
        "frac": "write fraction=",
        "random_state": _SEED,
        "random_seed": _SEED,
        "replace": "rows are chosen once at most",
        "with_replacement": "rows are chosen once at most",
    },
    "distinct": {
        "maintain_order": "rows come in any order; sort the result",
        "ignore_index": "rows have no index; leave it out",
    },
    "join": {
        "join_type": "write how=",
        "left_suffix": "write suffix= for the columns of the right side",
        "right_suffix": "write suffix=",
        "lsuffix": "write suffix= for the columns of the right side",
        "rsuffix": "write suffix=",
        "coalesce": "keys of on= come once, those of left_on= and right_on= twice; drop one",
        "validate": "count the rows of each key by group_by()",
        "nulls_equal": "null equals nothing; fill_null() before",
        "join_nulls": "null equals nothing; fill_null() before",
    },
    "map": {
        "batched": "a function gets one row; write map_batches(function) for batches",
        "num_proc": "write concurrency=",
        "remove_columns": "write drop(names) behind it",
        "with_indices": "rows have no numbers; write with_columns(index=xs.row_number().over(order_by=names))",
    },
    "map_batches": {
        "compute": "write concurrency= for the number of tasks or objects",
        "zero_copy_batch": "a function never gets rows that it could change for others; leave it out",
    },
    "from_generator": {
        "features": "write schema=, a pyarrow.Schema",
        "num_proc": "one task calls the function; write concat() of several datasets, each of a part of the work",
        "cache_dir": "rows are not cached; write materialize() to keep them in the store",
        "keep_in_memory": "rows are not cached; write materialize() to keep them in the store",
        "streaming": "rows are read as they are asked for; leave it out",
        "split": "a dataset has no splits by name; leave it out",
    },
    "read_images": {
        "include_paths": "the column path is there anyhow; leave it out",
        "file_extensions": 'name files by a pattern: "in/**/*.jpg"',
        "partitioning": "folders key=value are columns; write hive=",
        "ignore_missing_paths": "give paths that are there",
        "shuffle": "write random_shuffle(), or DataLoader(dataset, shuffle=True)",
        "override_num_blocks": "the plan decides how files are divided; leave it out",
        "concurrency": "as many tasks run as there is room for; leave it out",
    },
    "iter_batches": {
        "local_shuffle_buffer_size": _SHUFFLED,
        "local_shuffle_seed": _SHUFFLED,
        "prefetch_batches": "the next parts are made while the program looks at one; leave it out",
    },
    "iter_split": {
        "equal": "shards are equal but for one row, and no row is left out for that; leave it out",
        "locality_hints": "consumers are on this machine; leave it out",
    },
    "pivot": {
        **dict.fromkeys(("aggregate_function", "aggfunc"), "write aggregate="),
        "columns": "write on=, or pivot_table() for the arguments of pandas",
        **dict.fromkeys(
            ("sort_columns", "maintain_order"), "columns come in order; sort the result for rows"
        ),
        "separator": "columns have the values as names; write rename()",
    },
    "merge": {
        "indicator": "write with_columns(is_right=True) on the right side before, which is null where none is",
        **dict.fromkeys(("left_index", "right_index"), _NO_INDEX),
        "sort": "write sort(names) behind it",
        "copy": _NEW,
        "validate": "count the rows of each key by group_by()",
    },
    "repartition": {
        "num_blocks": "write repartition(n)",
        **dict.fromkeys(("shuffle", "sort"), "write method=, or sort(names)"),
        "target_num_rows_per_block": "write target_size=, in bytes",
        "keys": "write by=",
    },
    "DataLoader": {
        **dict.fromkeys(
            (
                "num_workers",
                "prefetch_factor",
                "persistent_workers",
                "worker_init_fn",
                "multiprocessing_context",
            ),
            "the engine's processes make the batches; leave it out",
        ),
        **dict.fromkeys(("world_size", "num_replicas"), "write world="),
        **dict.fromkeys(("sampler", "batch_sampler"), _SAMPLED),
        **dict.fromkeys(("generator", "random_state"), _SEED),
        **dict.fromkeys(
            ("pin_memory", "pin_memory_device"),
            'write batch["x"].pin_memory() in the loop, with format="torch"',
        ),
        "collate_fn": "a batch is a dictionary of arrays by column; write the function in the loop, or format=",
        "timeout": "a loop waits until the batch is there; leave it out",
    },
    "sum": {
        **dict.fromkeys(("on", "columns"), _OF_ONE),
        "ignore_nulls": "nulls count for nothing; leave it out",
        "skipna": "nulls count for nothing; leave it out",
        "numeric_only": _OF_ONE,
        "axis": f'{_OF_ONE}, or an expression of columns: with_columns(x="a + b")',
        "ddof": "std is that of a sample; write agg(s=xs.col(name).std(ddof=0)) for another",
    },
    "drop": {
        "axis": "drop takes names of columns alone, so leave it out; write filter(condition) for rows",
        "index": "rows have no index; write filter(condition)",
        "labels": "write drop(names)",
        "inplace": _NEW,
        "errors": _STRICT,
        "strict": _STRICT,
        "level": "columns have one name; leave it out",
    },
    "concat": {
        "axis": "rows have no numbers; write join(other, on=names) for columns of another dataset",
        "ignore_index": _NO_INDEX,
        "verify_integrity": _NO_INDEX,
        "keys": "write with_columns(source=xs.lit(name)) on each dataset before",
        "join": 'write how="diagonal" for the columns of all, or select(names) on each dataset before',
        "sort": "write sort(names) behind it for rows, and select(names) for columns",
        "rechunk": _LAZY,
        "parallel": _LAZY,
    },
    "fill_null": {
        **dict.fromkeys(("strategy", "method"), _CARRIED),
        "limit": "all nulls are filled; leave it out",
        "inplace": _NEW,
        "axis": "write a dictionary of values by column",
        "subset": "write a dictionary of values by column",
        "matches_supertype": "types stay as they are; leave it out",
    },
}


def refuse_arguments(call: str, given: Iterable[str], shown: str | None = None) -> None:
    """Raises ``OptionsError`` for arguments that other libraries have; ``TypeError`` for others, as Python does.

    Args:
        call: The function, as ``ARGUMENTS`` has it.
        given: Names of arguments that it does not have.
        shown: Its name, where several have the same remedies.
    """
    for name in given:
        if name not in ARGUMENTS[call]:
            raise TypeError(f"{shown or call}() got an unexpected keyword argument {name!r}")
        raise OptionsError(f"{shown or call} has no argument {name!r}; {ARGUMENTS[call][name]}")
