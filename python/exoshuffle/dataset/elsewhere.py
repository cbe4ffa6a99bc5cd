"""Names of pandas, Polars, Ray Data and Spark that mean nothing here, with what to write instead.

Why not aliases: a lazy dataset knows no numbers of rows. So it cannot do what such names promise, or not at the price
that they suggest.
"""

from __future__ import annotations

from collections.abc import Iterable

from exoshuffle.errors import OptionsError

_ONE_BY_ONE = "write map_batches(function), which gets a pyarrow.Table, or expressions"
_FILES = "write xs.read_parquet and its siblings, which are lazy"

_NUMBERED = "write with_columns(index=xs.row_number().over(order_by=names))"
_INTERSECTED = 'write join(other, on=names, how="semi").distinct()'
_SUBTRACTED = 'write join(other, on=names, how="anti").distinct()'
_APPENDED = "write union(other)"
_TOLD = "explain() tells the bytes of the inputs and what a shuffle takes"
_EACH = "write for row in iter_rows(), or map_batches(function)"

_FRAMED = "write with_columns(m=xs.col(name).mean().over(keys, order_by=..., frame=(-2, 0)))"
_RENAMED = 'write rename({"old": "new"})'
_FORMATTED = "write iter_batches(batch_format=), map_batches(function, batch_format=) or DataLoader(dataset, format=)"
_SHIFTED = "write with_columns(before=xs.col(name).shift(1).over(keys, order_by=...))"
_SUMMED = "write with_columns(total=xs.col(name).sum().over(keys, order_by=..., frame=(None, 0)))"
_COMPUTED = 'write with_columns(x="SQL"), with an expression for each column'
_TRUNCATED = "write group_by(day=\"date_trunc('day', t)\")"

#: Attributes of datasets; a name of Spark, ``unionAll``, is here as ``union_all``.
ON_DATASETS = {
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
    "shuffle": "write random_shuffle(seed=)",
    "randomize_block_order": "write random_shuffle(window=) for a cheap shuffle",
    "random_sample": "write sample(fraction=, seed=)",
    "take_batch": "write head(n), or to_numpy() of limit(n)",
    "num_blocks": "explain() tells the partitions",
    "num_rows": "write count()",
    "num_columns": "write len(dataset.columns)",
    "size_bytes": _TOLD,
    "estimated_size": _TOLD,
    "memory_usage": _TOLD,
    "stats": "explain() tells the plan and its cost",
    "add_column": "write with_column(name, expression)",
    "split": "write repartition(n) for parts, or sample(n) for some rows",
    "random_split": "write sample(fraction=, seed=) for a part of the rows",
    "train_test_split": "write sample(fraction=, seed=) for a part of the rows",
    "iter_torch_batches": 'write iter_batches(batch_format="torch")',
    "to_torch": 'write iter_batches(batch_format="torch"), or DataLoader(dataset, format="torch")',
    "nunique": 'write agg(n=("x", "count_distinct"))',
    "n_unique": 'write agg(n=("x", "count_distinct"))',
    "var": 'write agg(v=("x", "var"))',
    "quantile": 'write agg(q=("x", "quantile", 0.5))',
    "first": "write take(1)",
    "fetch": "write head(n)",
    "glimpse": "write show(n)",
    "slice": "rows have no numbers; write limit(n) for the first ones, or filter(condition)",
    "skip": "rows have no numbers; write filter(condition)",
    "offset": "rows have no numbers; write filter(condition)",
    "reverse": "rows have no numbers; write sort(names, descending=True)",
    "gather_every": "write sample(fraction=)",
    "with_row_index": _NUMBERED,
    "with_row_count": _NUMBERED,
    "with_row_number": _NUMBERED,
    "zip_with_index": _NUMBERED,
    "monotonically_increasing_id": _NUMBERED,
    "bottom_k": "write top_k(n, by, descending=False)",
    "is_empty": "write count() == 0",
    "width": "write len(dataset.columns)",
    "height": "write count()",
    "intersect": _INTERSECTED,
    "intersect_all": _INTERSECTED,
    "except_all": _SUBTRACTED,
    "subtract": _SUBTRACTED,
    "difference": _SUBTRACTED,
    "except_": _SUBTRACTED,
    "append": _APPENDED,
    "extend": _APPENDED,
    "vstack": _APPENDED,
    "union_all": _APPENDED,
    "cross_join": 'write join(other, how="cross")',
    "with_column_renamed": _RENAMED,
    "partition_by": "write repartition(n, by=names)",
    "sink_parquet": "write write_parquet(path)",
    "sink_csv": "write write_csv(path)",
    "union_by_name": _APPENDED,
    "coalesce": "write repartition(n)",
    "num_partitions": "explain() tells the partitions",
    "print_schema": "print(dataset.schema)",
    "select_expr": 'write select(name="SQL")',
    "corr": 'write agg(c="corr(x, y)")',
    "cov": 'write agg(c="covar_samp(x, y)")',
    "rolling": _FRAMED,
    "resample": _TRUNCATED,
    "group_by_dynamic": _TRUNCATED,
    "clip": 'write with_columns(x="greatest(least(x, high), low)")',
    "equals": "write to_arrow(), and compare the tables",
    "transpose": "write to_pandas(), if it is small",
    "summary": "write describe()",
    "copy": "a dataset never changes; use it as it is",
    "len": "write count()",
    "empty": "write count() == 0",
    "rows": _EACH,
    "iter_slices": "write iter_batches(batch_size=n)",
    "write_ndjson": "write write_json(path), which writes JSON lines",
    "sink_ndjson": "write write_json(path), which writes JSON lines",
    "sink_ipc": "write write_ipc(path)",
    "split_at_indices": "rows have no numbers; write filter(condition) for each part",
    "createOrReplaceTempView": "write filter, select, join and group_by, which take SQL expressions",
    "sql": "write filter, select, join and group_by, which take SQL expressions",
    "foreach": _EACH,
    "iterrows": _EACH,
    "itertuples": _EACH,
    "reduce": "write agg() for columns, or map_batches(function)",
    "map_partitions": "write map_batches(function)",
    "iter_tf_batches": 'write iter_batches(batch_format="numpy")',
    "to_list": "write take_all()",
    "to_table": "write to_arrow()",
    "compute": "write to_arrow(), to_polars(), iter_batches() or write_parquet(path)",
    "checkpoint": "write write_parquet(path), and read that",
    "isin": "write filter(xs.col(name).is_in(values))",
    "merge_asof": "write join_asof(other, on=name)",
    "enumerate": _NUMBERED,
    "zip": "rows have no numbers; write join(other, on=names)",
    "remove_columns": "write drop(names)",
    "rename_column": _RENAMED,
    "cast_column": "write cast({name: type})",
    "column_names": "write columns",
    "features": "write schema",
    "shard": "write iter_split(n), or DataLoader(dataset, rank=, world=)",
    "with_format": _FORMATTED,
    "set_format": _FORMATTED,
    "batch": "write iter_batches(batch_size=n)",
    "save_to_disk": "write write_parquet(path)",
    "to_json": "write write_json(path), which writes JSON lines",
    "to_ipc": "write write_ipc(path)",
    "input_files": "write files",
    "shift": _SHIFTED,
    "diff": _SHIFTED,
    "cumsum": _SUMMED,
    "cum_sum": _SUMMED,
    "round": _COMPUTED,
    "abs": _COMPUTED,
    "replace": _COMPUTED,
    "eval": _COMPUTED,
    "unnest": 'write with_columns(a="s.a"), for each field of a struct',
    "hstack": "rows have no numbers; write join(other, on=names)",
    "row": "rows have no numbers; write take(n), or filter(condition)",
    "item": "write take(1)",
    "duplicated": 'write group_by(names).agg(n="count"), and filter("n > 1")',
}

_FIRST_OF_GROUP = "write dataset.filter(xs.row_number().over(keys, order_by=names) <= n)"

#: Attributes of groups.
ON_GROUPS = {
    "apply": "write map_groups(function)",
    "apply_in_pandas": 'write map_groups(function, batch_format="pandas")',
    "transform": "write map_groups(function)",
    "head": _FIRST_OF_GROUP,
    "tail": _FIRST_OF_GROUP,
    "nth": _FIRST_OF_GROUP,
    "all": 'write agg(xs.col("x").implode()) for lists',
    "quantile": 'write agg(q=("x", "quantile", 0.5))',
    "filter": "write agg(n=count()) and then filter(condition), or map_groups(function)",
    "having": "write agg(...) and then filter(condition)",
    "pivot": "write dataset.pivot(on, index=, values=)",
    "cumsum": _SUMMED,
    "cum_sum": _SUMMED,
    "shift": _SHIFTED,
    "diff": _SHIFTED,
}

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
#: Arguments of methods.
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
        "coalesce": "keys of on= come once, those of left_on= and right_on= twice; drop one",
        "validate": "count the rows of each key by group_by()",
        "nulls_equal": "null equals nothing; fill_null() before",
        "join_nulls": "null equals nothing; fill_null() before",
    },
    "map": {
        "batched": "a function gets one row; write map_batches(function) for batches",
        "num_proc": "write concurrency=",
        "remove_columns": "write drop(names) behind it",
        "with_indices": f"rows have no numbers; {_NUMBERED}",
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
_OF_COLUMN = 'write xs.col("x").sum() and its siblings'
_ALL = "write select(*dataset.columns)"
#: Attributes of the package.
ON_PACKAGE = {
    **dict.fromkeys(("sum", "mean", "avg", "min", "max", "count", "median", "std"), _OF_COLUMN),
    "n_unique": 'write xs.col("x").n_unique()',
    "count_distinct": 'write xs.col("x").n_unique()',
    "desc": 'write sort("x", descending=True)',
    "asc": 'write sort("x")',
    "all": _ALL,
    "exclude": "write drop(names)",
    "concat_str": 'write xs.sql("concat(a, b)")',
    "struct": 'write xs.sql("struct_pack(a := a, b := b)")',
    "DataFrame": "write from_pydict(columns), from_items(rows) or from_pandas(frame)",
    "LazyFrame": "write from_pydict(columns), from_items(rows) or from_polars(frame)",
    "Series": "a dataset has columns by name; write from_pydict({name: values})",
    "interleave_datasets": "write DataLoader(mix([a, b], weights=[0.7, 0.3]), ...)",
    "from_numpy": "write from_pydict({name: array})",
    "from_dicts": "write from_items(rows)",
    "from_list": "write from_items(rows)",
    "scan_parquet": _FILES,
    "scan_csv": _FILES,
    "scan_ndjson": _FILES,
    "scan_ipc": _FILES,
    "read_table": "write read_parquet(paths)",
    "from_pylist": "write from_items(rows)",
    "from_records": "write from_items(rows)",
    "from_rows": "write from_items(rows)",
    "read_ndjson": "write read_json(paths), which reads JSON lines",
    "read_feather": "write read_ipc(paths)",
    "read_binary_files": "write read_binary(paths)",
    "read_excel": "write from_pandas(pandas.read_excel(path))",
    "load_dataset": _FILES,
    "concatenate_datasets": "write concat(datasets)",
    "is_initialized": "the first use starts an engine; write init() only to give options",
}


def refuse_arguments(call: str, given: Iterable[str]) -> None:
    """Raises ``OptionsError`` for arguments that other libraries have; ``TypeError`` for others, as Python does."""
    for name in given:
        if name not in ARGUMENTS[call]:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")
        raise OptionsError(f"{call} has no argument {name!r}; {ARGUMENTS[call][name]}")
