"""Calls of datasets, and of what makes them, that mean nothing here: one sentence each, when the call is made.

A new refusal of a method of datasets goes into ``OPTIONS`` or ``SCHEMAS``, by its class. A refusal that needs data or a
state of its own is a test below.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import exoshuffle as xs
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.errors import OptionsError, SchemaError
from exoshuffle.strategies import Push

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

#: Made before any test, since Polars starts threads for it, which a test's engine would seem to have left.
WIDE = pl.DataFrame({"a": [1], "w": pl.Series([1], dtype=pl.Int128)}).select(
    "a", "w", s=pl.struct("w")
)
TABLE = pa.table(
    {
        "k": [3, 1, 2, 1],
        "x": [0.5, 1.5, 2.5, 3.5],
        "text": ["a", "b", "c", "d"],
        "moment": pa.array([1, 2, 3, 4], pa.timestamp("us")),
        "items": [[1], [], [2], [3]],
        "point": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}],
    }
)

Call = Callable[[xs.Dataset], object]
Untyped: Any = xs

#: Name: (the call, words of its ``OptionsError``).
OPTIONS: dict[str, tuple[Call, str]] = {
    "sort by a number": (
        lambda d: d.sort(0),
        "by names 0; it must be the name of a column, or a l",
    ),
    "sort by bytes": (lambda d: d.sort(b"k"), "by names b'k'; it must be the name"),
    "sort by pairs": (
        lambda d: d.sort([("k", "desc")]),
        r"by names \('k', 'desc'\); .*; directions are given by descending=",
    ),
    "two directions of one column": (
        lambda d: d.sort(["k", "k"], descending=[True, False]),
        "sort key 'k' is named twice, in different ways; name it once",
    ),
    "no direction": (lambda d: d.sort("k", descending=None), "descending is None; write True or F"),
    "a number as direction": (lambda d: d.sort("k", descending=1), "descending is 1; write True"),
    "a word as direction": (lambda d: d.sort("k", descending="desc"), "descending is 'desc'; writ"),
    "words as directions": (
        lambda d: d.sort("k", descending=["asc"]),
        "descending is 'asc'; write",
    ),
    "no placement": (lambda d: d.sort("k", nulls=None), 'nulls is None; write "first" or "last"'),
    "placements of numbers": (lambda d: d.sort("k", nulls=[1]), 'nulls is 1; write "first"'),
    "top_k by a number": (lambda d: d.top_k(3, 0), "by names 0"),
    "group by a number": (
        lambda d: d.group_by(0),
        "group_by names 0; it must be the name of a col",
    ),
    "window of nothing": (lambda d: d.window(order_by="k"), "window needs at least one function"),
    "window without arguments": (
        lambda d: d.window(r="row_number"),
        "window has r='row_number'; write a function with its arguments",
    ),
    "window with OVER": (lambda d: d.window(r="sum(x) over ()"), "for expressions with OVER with_"),
    "window of a number": (lambda d: d.window(r=3), 'window got 3; write name="sum\\(x\\)"'),
    "window by a number": (lambda d: d.window(partition_by=3, r="rank()"), "partition_by names 3"),
    "window of too many directions": (
        lambda d: d.window(order_by="k", descending=[True, False], r="rank()"),
        "descending is .*; give one for all columns of order_by, or 1 of them",
    ),
    "window of a frame backwards": (
        lambda d: d.window(r="sum(x)", frame=(2, 1)),
        r"frame is \(2, 1\); the first bound must not lie behind the last",
    ),
    "window of no frame": (lambda d: d.window(r="sum(x)", frame=3), "frame is 3; give two numbers"),
    "window of two frames": (
        lambda d: d.window(r="sum(x)", frame=(0, 1), range_frame=(0, 1)),
        "give one of them",
    ),
    "window of text as distance": (
        lambda d: d.window(order_by="k", r="sum(x)", range_frame=("1", 0)),
        r"range_frame is \('1', 0\); give two numbers or timedeltas",
    ),
    "over of a column": (
        lambda d: d.with_columns(xs.col("x").over("k")),
        r"over\(\) got the column 'x'; write a function before it",
    ),
    "an aggregate without over": (
        lambda d: d.with_columns(r=xs.col("x").sum()),
        r'sum\("x"\) has no value for each row; write over\(keys\)',
    ),
    "shift by text": (lambda _: xs.col("x").shift("1"), "shift got '1'; give a number of rows"),
    "ntile of nothing": (lambda _: Untyped.ntile(0), "ntile got 0; give a number of parts"),
    "write in no mode": (
        lambda d: d.write_parquet("out", mode="replace"),
        "mode is 'replace'; write 'error', 'overwrite', 'append', 'ignore'",
    ),
    "write in two modes": (
        lambda d: d.write_parquet("out", overwrite=True, mode="append"),
        "overwrite is True and mode is 'append'; give one of them",
    ),
    "arguments of a function as text": (
        lambda d: d.map_batches(lambda batch: batch, fn_args="ab"),
        "fn_args is 'ab'; give a tuple of arguments",
    ),
    "named arguments as a number": (
        lambda d: d.map(lambda row: row, fn_kwargs=3),
        "fn_kwargs is 3; give a dictionary of arguments",
    ),
    "a class for rows": (
        lambda d: d.flat_map(dict),
        "flat_map got the class dict; give a function, or give the class to map_batches",
    ),
    "errors of a function": (
        lambda d: d.map(lambda row: row, on_error="ignore"),
        'on_error is \'ignore\'; write "raise" or "skip"',
    ),
    "errors of a condition": (
        lambda d: d.filter("x > 3", on_error="skip"),
        "filter got on_error='skip' without a function; give a function, or leave it out",
    ),
    "batches of a size for a function": (
        lambda d: d.map_batches(lambda batch: batch, batch_size=0),
        "batch_size is 0; it must be a whole number from 1 on",
    ),
    "iter_split: no shards": (
        lambda d: d.iter_split(0),
        "iter_split got 0 shards; it must be a whole number from 1 on",
    ),
    "iter_split: batches smaller than the shards": (
        lambda d: d.iter_split(4, batch_size=3),
        "batch_size is 3, the rows of a step of all shards; with 4 shards it must be a whole number",
    ),
    "iter_split: an argument of Ray Data": (
        lambda d: d.streaming_split(2, equal=True),
        "iter_split has no argument 'equal'; shards are equal but for one row",
    ),
    "batches from a buffer": (
        lambda d: d.iter_batches(local_shuffle_buffer_size=3),
        "iter_batches has no argument 'local_shuffle_buffer_size'; write random_shuffle",
    ),
    "distinct by a number": (lambda d: d.distinct(0), "subset names 0"),
    "join on a number": (lambda d: d.join(d, on=0), "on names 0"),
    "join left_on a number": (lambda d: d.join(d, left_on=[0], right_on="k"), "left_on names 0"),
    "join right_on a number": (lambda d: d.join(d, left_on="k", right_on=0), "right_on names 0"),
    "join with a table": (
        lambda d: d.join(TABLE, on="k"),
        "join takes a Dataset, and got a pyarrow.lib.Table; .* from_arrow",
    ),
    "union with a table": (
        lambda d: d.union(TABLE),
        "union takes a Dataset, and got a pyarrow.lib.Ta",
    ),
    "union with a list": (lambda d: d.union([d]), "union takes a Dataset, and got a builtins.list"),
    "a strategy's class": (
        lambda d: d.sort("k", strategy=Push),
        r"strategy is the class Push; pass an instance of it, such as Push\(\)",
    ),
    "no strategy": (
        lambda d: d.sort("k", strategy=None),
        "strategy is None; pass a name .auto, whole",
    ),
    "a number as strategy": (lambda d: d.distinct("k", strategy=5), "strategy is 5; pass a name"),
    "an object as strategy": (lambda d: d.join(d, "k", strategy=object()), "strategy is <object"),
    "unknown strategy of sort": (
        lambda d: d.sort("k", strategy="magic"),
        "unknown strategy 'magic'; known are auto, whole, simple, push, pre_shuffle_merge, streaming$",
    ),
    "unknown strategy of group_by": (
        lambda d: d.group_by("k", strategy="x"),
        "unknown strategy 'x'",
    ),
    "unknown strategy of random_shuffle": (
        lambda d: d.random_shuffle(strategy="x"),
        "unknown strategy 'x'",
    ),
    "unknown strategy of repartition": (lambda d: d.repartition(2, strategy="x"), "strategy 'x'"),
    "results elsewhere": (
        lambda d: d.sort("k").explain(results="foo"),
        'results is \'foo\'; write "files" or "batches"',
    ),
    "results that are kept": (
        lambda d: d.sort("k").explain(results="blocks"),
        "results is 'blocks'",
    ),
    "a word as fraction": (lambda d: d.sample(fraction="x"), "fraction is 'x'; it must be above 0"),
    "no function": (lambda d: d.map_batches("x"), "map_batches needs a function, and got 'x'"),
    "no function of groups": (
        lambda d: d.group_by("k").map_groups(None),
        "needs a function, and got",
    ),
    "a word as schema": (
        lambda d: d.map_batches(lambda batch: batch, schema="x"),
        "schema is 'x'; give a pyarrow.Schema",
    ),
    "a dictionary as schema": (
        lambda d: d.map_batches(lambda batch: batch, schema={}),
        "schema is {}; give a pyarrow.Schema",
    ),
    "an unknown method": (
        lambda d: d.repartition(2, method="magic"),
        "unknown method 'magic'; known are hash, range, round-robin",
    ),
    "an unknown method by a column": (
        lambda d: d.repartition(2, by="k", method=1),
        "unknown method 1",
    ),
    "hash of nothing": (
        lambda d: d.repartition(2, method="hash"),
        "method 'hash' goes by the values of columns; name them in by=",
    ),
    "range of nothing": (
        lambda d: d.repartition(2, method="range"),
        "method 'range' goes by the va",
    ),
    "hash of no columns": (
        lambda d: d.repartition(2, by=[], method="hash"),
        "method 'hash' goes by",
    ),
    "in turn by a column": (
        lambda d: d.repartition(2, by="k", method="round_robin"),
        "method 'round_robin' deals rows out in turn, whatever they hold; leave out by=",
    ),
    "select an expression": (lambda d: d.select(pc.field("k")), "select names <pyarrow.*>; it mu"),
    "select a number": (lambda d: d.select(1), "select names 1; it must be the name of a column"),
    "select a dictionary": (lambda d: d.select({"z": "k"}), "select names {'z': 'k'}; it must be"),
    "select nothing named": (lambda d: d.select(None), "select names None"),
    "drop a number": (lambda d: d.drop(1), "drop names 1"),
    "drop a set": (lambda d: d.drop({"k", "x"}), "drop names {'.', '.'}; it must be"),
    "sort by a set": (lambda d: d.sort({"k", "x"}), "by names {'.', '.'}; it must be the name"),
    "sort by a dictionary": (lambda d: d.sort({"k": True}), "by names {'k': True}; it must be"),
    "join on a dictionary": (lambda d: d.join(d, on={"k": "x"}), "on names {'k': 'x'}; it must be"),
    "rename by a name": (lambda d: d.rename("k"), "rename got 'k'; give a dictionary of old names"),
    "rename by a list": (
        lambda d: d.rename(["a", "b", "c"]),
        r"rename got \['a', 'b', 'c'\]; give",
    ),
    "rename by a function": (lambda d: d.rename(str.upper), "rename got <.*>; give a dictionary"),
    "rename to a number": (lambda d: d.rename({"k": 1}), "rename has the new name 1; it must be t"),
    "a number as suffix": (lambda d: d.join(d, on="k", suffix=1), "suffix is 1; it must be text"),
    "suffixes of pandas": (
        lambda d: d.join(d, "k", suffix=("_x", "_y")),
        r"suffix is \('_x', '_y'",
    ),
    "union of a list": (
        lambda d: d.union([d, d]),
        r"before a list of datasets, union\(\*datasets\)",
    ),
    "filter by pyarrow": (
        lambda d: d.filter(pc.field("k") > 1),
        "an expression is <pyarrow.*>; wr",
    ),
    "filter by a list of lists": (lambda d: d.filter([["k > 1"]]), r"an expression is \['k > 1'\]"),
    "filter by null": (lambda d: d.filter(k=None), "== None is null for every row; write is_null"),
    "filter by nothing": (lambda d: d.filter(None), "an expression is None"),
    "filter by a value": (lambda d: d.filter(True), "an expression is True"),
    "columns of nothing": (lambda d: d.with_columns(z=None), "an expression is None"),
    "columns of lists": (lambda d: d.with_columns(z=[1]), r"an expression is \[1\]"),
    "a limit of text": (lambda d: d.limit("10"), "limit is '10'; it must be a whole number"),
    "a limit beyond all": (lambda d: d.limit(10**30), r"limit is 10+; it must be at most 2\*\*63"),
    "a limit without end": (lambda d: d.limit(float("inf")), "limit is inf; it must be a whole"),
    "a sample of text": (lambda d: d.sample("3"), "n is '3'; it must be a whole number"),
    "a sample of all and more": (lambda d: d.sample(fraction=2), "fraction is 2; it must be above"),
    "a seed of text": (lambda d: d.random_shuffle(seed="7"), "seed is '7'; choose a whole number"),
    "a seed below zero": (lambda d: d.random_shuffle(seed=-1), "seed is -1; choose a whole number"),
    "a seed of a stream": (
        lambda d: d.group_by("k").count().stream(seed=[1]),
        r"seed is \[1\]; choose a whole number",
    ),
    "no partitions of repartition": (
        lambda d: d.repartition(0),
        "0 partitions; choose 1 or more",
    ),
    "partitions by halves": (
        lambda d: d.repartition(2.5),
        "num_partitions is 2.5; it must be a wh",
    ),
    "keys that are names": (
        lambda d: d.sort_keys(["k"]),
        r"keys is \['k'\]; give a list of SortKey",
    ),
    "keys that are one": (
        lambda d: d.sort_keys("k"),
        "keys is 'k'; give a list of SortKey objects",
    ),
    "no keys": (lambda d: d.sort_keys([]), r"keys is \[\]; give a list of SortKey objects, one at"),
    "no list of keys": (lambda d: d.sort_keys(None), "keys is None"),
    "text as a function of groups": (
        lambda d: d.group_by("k").map_groups("x"),
        "map_groups needs a function, and got 'x'",
    ),
    "a table as schema": (
        lambda d: d.map_batches(lambda batch: batch, schema=TABLE),
        "schema is pyarrow.Table k: int64 .*…; give a pyarrow.Schema",
    ),
    "formats": (lambda _: WriteOptions(["parquet"]), r"unknown format \['parquet'\]"),
    "a dataset of a table": (
        lambda _: xs.Dataset(TABLE),
        "a dataset is made by read_parquet and its siblings, or by from_arrow, not of pyarrow.Table",
    ),
    "a delimiter of numbers": (
        lambda _: Untyped.read_csv("x", delimiter=1),
        "delimiter is 1; give",
    ),
    "the header of pandas": (lambda _: Untyped.read_csv("x", header=0), "header is 0; write True"),
    "no header of pandas": (
        lambda _: Untyped.read_csv("x", header=None),
        "header is None; write T",
    ),
    "a schema by number": (
        lambda _: Untyped.read_csv("x", schema={1: "int64"}),
        "schema names 1; it must be the name of a column",
    ),
    "a record size of text": (
        lambda _: Untyped.read_records("x", record_size="100"),
        "record_size is '100'; it must be a number of bytes from 1 on",
    ),
    "no record size": (
        lambda _: Untyped.read_records("x", record_size=None),
        "record_size is None",
    ),
    "a key of halves": (
        lambda _: Untyped.read_records("x", key_size=1.5),
        "key_size is 1.5; it mus",
    ),
    "a key of nothing": (lambda _: xs.read_records("x", key_size=0), "key_size is 0; it must be a"),
    "no column": (lambda d: d.sort(), "at least one column"),
    "empty list": (lambda d: d.sort([]), "at least one column"),
    "too few directions": (
        lambda d: d.sort(["k", "text"], descending=[True]),
        "descending has 1 value for 2 columns",
    ),
    "too many placements": (
        lambda d: d.sort("k", nulls=["first", "last"]),
        "nulls has 2 values for 1 column in by=",
    ),
    "unknown placement": (lambda d: d.sort("k", nulls="middle"), '"first" or "last"'),
    "unknown strategy of a result": (
        lambda d: d.sort("k", strategy="magic").to_arrow(),
        "known are auto, whole, simple, push",
    ),
    "no partitions of sort": (
        lambda d: d.sort("k", num_partitions=0).to_arrow(),
        "0 partitions; choose 1 or more",
    ),
    "negative partitions": (lambda d: d.sort("k", num_partitions=-1).to_arrow(), "-1 partitions"),
    "records from a table": (
        lambda d: d.write_records("out"),
        "tables cannot be written as records; write parquet, arrow, csv or jsonl",
    ),
    "target of nothing": (lambda d: d.write_parquet("out", target_file_size=0), "at least 1"),
    "target no size": (
        lambda d: d.write_parquet("out", target_file_size="big"),
        "'big' is not a size",
    ),
    "a name that both sides have, with the suffix": (
        lambda d: d.with_columns(x_right="1").join(d.select("k", "x"), on="k"),
        "two columns named 'x_right' with suffix='_right'; choose another suffix",
    ),
    "no suffix": (
        lambda d: d.join(d.select("k", "x"), on="k", suffix=""),
        "two columns named 'x' with suffix=''; choose another suffix",
    ),
    "from_arrow of a number": (
        lambda _: xs.from_arrow(5),
        "from_arrow takes a table, batches or a stream of Arrow data, and got int 5; for lists",
    ),
    "from_arrow of a path": (
        lambda _: xs.from_arrow("a.parquet"),
        "got the path 'a.parquet'; for files call read_parquet and its siblings",
    ),
    "from_arrow of a generator": (
        lambda _: xs.from_arrow(iter([])),
        r"tells no schema; write pyarrow.RecordBatchReader.from_batches\(schema, batches\)",
    ),
    "from_arrow of a list": (lambda _: xs.from_arrow([1, 2]), "and got a list; for lists call fr"),
    "from_arrow of a column": (
        lambda _: xs.from_arrow(TABLE["k"]),
        "got a column, pyarrow.ChunkedArray; name it: from_pydict",
    ),
    "from_arrow of an array": (lambda _: xs.from_arrow(pa.array([1])), "got a column, pyarrow.Int"),
    "from_pandas of a table": (
        lambda _: xs.from_pandas(TABLE),
        "from_pandas takes a pandas.DataFrame, and got pyarrow.Table; for other tables call from_a",
    ),
    "from_polars of a table": (lambda _: xs.from_polars(TABLE), "takes a polars.DataFrame, and go"),
    "from_pydict of rows": (
        lambda _: Untyped.from_pydict([{"x": 1}]),
        "from_pydict takes a dictionary of columns, and got .*; for rows call from_items",
    ),
    "from_pydict of text": (
        lambda _: xs.from_pydict({"x": "abc"}),
        "column 'x' is 'abc'; give a list of its values",
    ),
    "from_pydict of a number": (lambda _: xs.from_pydict({"x": 1}), "column 'x' is 1; give a list"),
    "from_pydict of other lengths": (
        lambda _: xs.from_pydict({"x": [1, 2], "y": [1]}),
        "column 'x' has 2 values, and column 'y' 1; give all columns one length",
    ),
    "from_pydict with another schema": (
        lambda _: xs.from_pydict({"x": [1]}, schema=pa.schema([("y", pa.int8())])),
        "schema has the columns 'y', and the data 'x'; give a type to each, and to no others",
    ),
    "from_pydict with a word as schema": (
        lambda _: Untyped.from_pydict({"x": [1]}, schema="x"),
        "schema is 'x'; give a pyarrow.Schema",
    ),
    "from_items of a dictionary": (
        lambda _: Untyped.from_items({"x": [1]}),
        "from_items takes a list of rows, and got .*; for a dictionary of columns call from_pydict",
    ),
    "from_items of both kinds": (
        lambda _: xs.from_items([{"x": 1}, 2]),
        "item 0 is {'x': 1}, and item 1 is 2; give dictionaries only, or none",
    ),
    "from_items of numbers for two columns": (
        lambda _: xs.from_items([1], schema=pa.schema([("a", pa.int8()), ("b", pa.int8())])),
        "item 0 is 1, and schema has 2 columns; give dictionaries",
    ),
    "from_generator of a number": (
        lambda _: Untyped.from_generator(3),
        "from_generator takes a generator function or an iterable of rows, and got 3",
    ),
    "from_generator of a dictionary": (
        lambda _: Untyped.from_generator({"x": [1]}),
        "from_generator takes a generator function or an iterable of rows, and got {'x'",
    ),
    "from_generator of a called function with arguments": (
        lambda _: xs.from_generator(iter([1]), gen_kwargs={"n": 1}),
        "got an iterator with gen_kwargs; give the function that makes it, uncalled",
    ),
    "from_generator with a word as arguments": (
        lambda _: Untyped.from_generator(list, gen_kwargs="n"),
        "gen_kwargs is 'n'; give a dictionary",
    ),
    "from_generator with a word as schema": (
        lambda _: Untyped.from_generator(list, schema="x"),
        "schema is 'x'; give a pyarrow.Schema",
    ),
    "from_generator with features": (
        lambda _: Untyped.from_generator(list, features={"x": "int64"}),
        "from_generator has no argument 'features'; write schema=",
    ),
    "images of no size": (
        lambda _: Untyped.read_images("in", size="large"),
        r"size is 'large'; give \(height, width\)",
    ),
    "images without height": (
        lambda _: xs.read_images("in", size=(0, 4)),
        r"size is \(0, 4\); give",
    ),
    "images of an unknown mode": (
        lambda _: Untyped.read_images("in", mode="BGR"),
        "mode is 'BGR'; write one of L, LA, RGB, ",
    ),
    "images with an unknown word for errors": (
        lambda _: xs.read_images("in", on_error="ignore"),
        'on_error is \'ignore\'; write "raise" or "skip"',
    ),
    "images with endings": (
        lambda _: Untyped.read_images("in", file_extensions=["jpg"]),
        "read_images has no argument 'file_extensions'; name files by a pattern",
    ),
    "range of a half": (
        lambda _: Untyped.range(0.5),
        "stop is 0.5; it must be a whole number of 64",
    ),
    "range from a word": (lambda _: Untyped.range("a", 3), "start is 'a'; it must be a whole"),
    "range in steps of nothing": (lambda _: xs.range(1, 2, 0), "step is 0; it must be another num"),
    "range beyond 64 bits": (lambda _: xs.range(2**63 + 1), "it must be a whole number of 64 bits"),
    "range of too many": (
        lambda _: xs.range(-(2**63), 2**63 - 1),
        "range has 18446744073709551615 rows; it must have at most",
    ),
    "fill_null with what fits nothing": (
        lambda d: d.select("k").fill_null("a"),
        "fill_null got 'a', and no column has a type that it fits; give another value, or values",
    ),
    "fill_null with null": (lambda d: d.fill_null(None), "fill_null got None, and no column has"),
    "cast to a word": (lambda d: d.cast({"k": "number"}), "'number'"),
    "concat of nothing": (
        lambda _: xs.concat([]),
        r"concat takes a list of datasets, and got \[\]",
    ),
    "concat of one": (
        Untyped.concat,
        "concat takes a list of datasets, and got Dataset",
    ),
    "concat of tables": (
        lambda d: xs.concat([d, TABLE]),
        "concat takes a Dataset, and got a pyarrow",
    ),
    "an aggregate as a number": (
        lambda d: d.group_by("k").agg(5),
        "agg got 5; write name=.column, function., text such as .total=sum.x.., or xs.col",
    ),
    "an aggregate twice": (
        lambda d: d.group_by("k").agg("n=count()", n="count"),
        "two aggregates have the name 'n'; names must differ",
    ),
    "unpivot to a number": (
        lambda d: d.unpivot("k", variable_name=1),
        "variable_name is 1; give the name of a column as text",
    ),
    "pivot of too many values": (
        lambda _: xs.range(1001).with_columns(x="1").pivot("id", index="x", values="x"),
        "pivot makes a column for each value of 'id', and it has more than 1,000; group by it inst",
    ),
    "pivot by an unknown function": (
        lambda d: d.pivot("k", index="text", values="x", aggregate="summ"),
        "asks for 'summ', which is none of",
    ),
    "explode two columns": (lambda d: d.explode(["items", "x"]), "explode takes one column, and g"),
    "a column without a name in an expression": (
        lambda d: d.filter(xs.col("") > 1),
        r"col got '', .* no name in SQL; give it one before: rename\({'': 'index'}\)",
    ),
    "nulls of a column without a name": (
        lambda d: d.rename({"x": ""}).null_count(),
        r"col got '', .* rename\({'': 'index'}\)",
    ),
    "a window over a column without a name": (
        lambda d: d.with_columns(y=xs.col("x").sum().over("")),
        r"partition_by got '', .* rename\({'': 'index'}\)",
    ),
    "unknown aggregate": (
        lambda d: d.group_by("k").agg(s=("x", "summ")),
        "asks for 'summ', which is none of all, any",
    ),
}

#: Name: (the call, words of its ``SchemaError``).
SCHEMAS: dict[str, tuple[Call, str]] = {
    "filter by an unknown column": (lambda d: d.filter(kk=1), "there is no column 'kk'"),
    "window of an unknown function": (
        lambda d: d.window(r="rownumber()"),
        "no window function 'rownumber'.*the nearest are 'row_number'",
    ),
    "window of a sum of text": (
        lambda d: d.window(r="sum(text)"),
        "is asked of column 'text', which is string, and it takes numbers, booleans or durations",
    ),
    "window of an unknown column": (lambda d: d.window(r="sum(y)"), "no column 'y'"),
    "window by lists": (
        lambda d: d.window(partition_by="items", r="rank()"),
        "column 'items' is list<.*cannot be a key of groups",
    ),
    "window of a lag that varies": (
        lambda d: d.window(r="lag(x, k)"),
        "k must be a whole number, the same for all rows",
    ),
    "window of too many arguments": (
        lambda d: d.window(r="rank(x)"),
        "it takes nothing, and was given 1 argument",
    ),
    "window of a default of another type": (
        lambda d: d.window(r="lag(x, 1, items)"),
        "does not fit: Unsupported cast from list",
    ),
    "window of a fraction beyond 1": (
        lambda d: d.window(r="quantile(x, 2)"),
        "2 must be a fraction from 0 to 1",
    ),
    "window of a range of text": (
        lambda d: d.window(order_by="text", r="sum(x)", range_frame=(-1, 0)),
        "cannot compute the window function 'sum.*cast its columns first, or choose another frame",
    ),
    "a window function without OVER": (
        lambda d: d.with_columns(r="rank()"),
        r"rank\(\) sees other rows; write OVER \(...\) behind it",
    ),
    "a window function in another": (
        lambda d: d.with_columns(r="sum(max(x) over ()) over ()"),
        "a window function is in another; compute the inner one by with_columns",
    ),
    "a window of distinct sums": (
        lambda d: d.with_columns(r="sum(distinct x) over ()"),
        r"DISTINCT is for count\(\); leave it out",
    ),
    "a frame that varies": (
        lambda d: d.with_columns(
            r="sum(x) over (order by k rows between k preceding and current row)"
        ),
        "the bounds of its frame must be the same for all rows",
    ),
    "pivot by a list": (
        lambda d: d.with_columns(l="[k]").pivot("k", index="l", values="x", on_columns=[1]),
        r"'l' is list.* cannot be a key of groups; columns that can are ('[a-z]+'(, )?)+$",
    ),
    "unpivot columns of several types": (
        lambda d: d.unpivot(["k", "text"]),
        "unpivot puts values into one column, and 'k' is int64, 'text' string; cast.. one of them",
    ),
    "unpivot nothing": (
        lambda d: d.select("k", "x").unpivot(index=["k", "x"]),
        "unpivot has no column left to make rows of; leave some out of index",
    ),
    "unpivot to a name twice": (
        lambda d: d.unpivot("k", index="x", value_name="x"),
        "unpivot would give two columns the name 'x'; choose variable_name and value_name",
    ),
    "pivot to a name twice": (
        lambda d: d.rename({"text": "1"}).pivot("k", index="1", values="x"),
        "pivot would give two columns the name '1', one of them for 1; rename, or change values of",
    ),
    "pivot by durations": (
        lambda _: xs.from_arrow(pa.table({"t": pa.array([1], pa.duration("ns")), "k": [1]})).pivot(
            "t", index="k", values="k"
        ),
        "pivot makes a column for each value of 't', and it is duration.ns., .*; cast it to int64",
    ),
    "pivot what is not there": (
        lambda d: d.pivot("nope", index="k", values="x"),
        "there is no column 'nope'",
    ),
    "explode numbers": (
        lambda d: d.explode("k"),
        "column 'k' is int64, which is no list; explode takes a list",
    ),
    "explode what is not there": (lambda d: d.explode("nope"), "there is no column 'nope'"),
    "fill_null of numbers with text": (
        lambda d: d.fill_null({"k": "a"}),
        "column 'k' is int64, and 'a' is no value of it; cast the column, or give another value",
    ),
    "fill_null of what is not there": (lambda d: d.fill_null({"nope": 1}), "there is no column 'n"),
    "drop_nulls of what is not there": (
        lambda d: d.drop_nulls("nope"),
        "there is no column 'nope'",
    ),
    "cast what is not there": (lambda d: d.cast({"nope": "text"}), "there is no column 'nope'"),
    "from_arrow of columns twice": (
        lambda _: xs.from_arrow(pa.table([[1], [2], [3]], ["a", "b", "a"])),
        "two columns have the name 'a'; names must differ, so rename one",
    ),
    "from_arrow of no columns": (
        lambda _: xs.from_arrow(pa.table({})),
        "the rows have no columns; give at least one",
    ),
    "from_polars of objects": (
        lambda _: xs.from_polars(pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)})),
        "the DataFrame has column 'o' of Python objects .dtype Object.*; cast or leave out",
    ),
    "from_polars of integers of 128 bits": (
        lambda _: xs.from_polars(WIDE),
        "the DataFrame has columns 'w', 's' of integers of 128 bits, which Arrow has not; cast to",
    ),
    "from_arrow of a frame with objects": (
        lambda _: xs.from_arrow(pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)})),
        "column 'o' of Python objects",
    ),
    "from_pydict of mixed values": (
        lambda _: xs.from_pydict({"x": [1, "a"]}),
        "values of column 'x' have no common type: .*; convert them, or give the type by schema=",
    ),
    "from_pydict of values out of range": (
        lambda _: xs.from_pydict({"x": [300]}, schema=pa.schema([("x", pa.int8())])),
        "values of column 'x' do not fit its type: ",
    ),
    "from_generator of nothing": (
        lambda _: xs.from_generator(list),
        "from_generator: nothing was yielded, so there are no columns; give schema=",
    ),
    "from_generator of an empty iterator": (
        lambda _: xs.from_generator(iter(())),
        "from_generator: nothing was yielded, so there are no columns; give schema=",
    ),
    "from_generator of a number that a function returns": (
        lambda _: xs.from_generator(int),
        "from_generator: int returned int; yield dictionaries",
    ),
    "from_generator of None": (
        lambda _: xs.from_generator(iter([{"x": None}])),
        "from_generator: the first rows have nothing but None in 'x'; give schema=",
    ),
    "from_generator of two sorts": (
        lambda _: xs.from_generator(iter([{"x": 1}, {"x": "a"}])),
        "from_generator: the first rows have values in 'x' that have no type in common: .*; give schema=",
    ),
    "from_items of nothing": (
        lambda _: xs.from_items([]),
        "from_items got no item, so there are no columns; give schema=",
    ),
    "SQL as a column": (
        lambda d: d.sort("k desc"),
        "there is no column 'k desc'; for the order of 'k' write descending=True",
    ),
    "SQL in a list": (lambda d: d.sort(["x", "k ASC"]), "'k ASC'; for .* write descending=False"),
    "SQL of top_k": (
        lambda d: d.top_k(1, "k desc nulls first"),
        "for the order of 'k' write desce",
    ),
    "group_by lists": (
        lambda d: d.group_by("items").agg(n="count"),
        "column 'items' is list<.*>, which cannot be a key of groups; columns that can are 'k', 'x', 'text', 'moment'$",
    ),
    "group_by structs": (lambda d: d.group_by(["k", "point"]).count(), "column 'point' is struct<"),
    "map_groups of lists": (
        lambda d: d.group_by("items").map_groups(lambda group: group),
        "column 'items' is list<.*>, which cannot be a key of groups",
    ),
    "map_groups of nothing": (
        lambda d: d.group_by("nope").map_groups(lambda group: group),
        "there is no column 'nope'",
    ),
    "distinct lists": (
        lambda d: d.distinct("items"),
        "cannot be a key of groups; columns that can",
    ),
    "distinct rows": (lambda d: d.distinct(), "column 'items' is list<.*>, which cannot be a key"),
    "distinct, and nothing can": (
        lambda d: d.select("items").distinct(),
        "which cannot be a key of groups; columns that can are none of these",
    ),
    "an empty condition": (
        lambda d: d.filter(""),
        "cannot read expression '': it is empty; write SQL",
    ),
    "a blank expression": (
        lambda d: d.with_columns(z=" \n"),
        "cannot read expression ' .n': it is empty",
    ),
    "groups of what is not there": (lambda d: d.group_by("nope"), "there is no column 'nope'"),
    "a function without columns": (
        lambda d: d.map_batches(lambda _: {}),
        "map_batches would leave no column, and so no rows; return at least one",
    ),
    "a function with columns twice": (
        lambda d: d.map_batches(lambda b: pa.Table.from_arrays([b["k"], b["k"]], ["a", "a"])),
        "map_batches would give two columns the name 'a'; names must differ",
    ),
    "types of keys": (
        lambda d: d.join(d.select("text"), left_on="k", right_on="text"),
        r"cannot join 'k' \(int64\) with 'text' \(string\): .* cast one",
    ),
    "sum of text": (
        lambda d: d.group_by("k").agg(s=("text", "sum")),
        "sum is asked of column 'text', which is string, and it takes numbers",
    ),
    "mean of moments": (
        lambda d: d.group_by("k").agg(s=("moment", "mean")),
        r"mean is asked of column 'moment', which is timestamp\[us\]",
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which must stay empty."""
    made = tmp_path / "here"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str, dataset: xs.Dataset, here: Path) -> None:
    call, words = OPTIONS[name]
    with pytest.raises(OptionsError, match=words) as caught:
        call(dataset)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(name: str, dataset: xs.Dataset, here: Path) -> None:
    call, words = SCHEMAS[name]
    with pytest.raises(SchemaError, match=words) as caught:
        call(dataset)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert "sort key" not in str(caught.value)
    assert list(here.iterdir()) == []


IN_PARTITIONS: dict[str, Callable[[xs.Dataset, int], object]] = {
    "sort": lambda d, n: d.sort("k", num_partitions=n),
    "shuffle": lambda d, n: d.random_shuffle(num_partitions=n),
    "repartition": lambda d, n: d.repartition(n),
    "group_by": lambda d, n: d.group_by("k", num_partitions=n),
    "distinct": lambda d, n: d.distinct("k", num_partitions=n),
    "join": lambda d, n: d.join(d.select("k"), on="k", num_partitions=n),
}


@pytest.mark.parametrize("name", IN_PARTITIONS)
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 partitions; choose 1 or more"),
        (-3, "-3 partitions; choose 1 or more"),
        (1.5, r"num_partitions is 1\.5; it must be a whole number"),
    ],
)
def test_partitions(name: str, number: int, words: str, dataset: xs.Dataset) -> None:
    """At once, before anything runs."""
    with pytest.raises(OptionsError, match=words):
        IN_PARTITIONS[name](dataset, number)


def test_a_format_is_no_options(dataset: xs.Dataset, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="options is 'csv'; give WriteOptions, or call write_p"):
        dataset.write(tmp_path / "out", "csv")  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match="options is 'csv'; give WriteOptions"):
        dataset.explain(options="csv")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_records_are_not_sorted_largest_first_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"x" * 300)
    records = xs.read_records(tmp_path / "in.bin")
    with pytest.raises(OptionsError, match="are sorted smallest first; leave out descending="):
        records.sort(descending=True)


def test_an_unknown_column_lists_the_candidates(dataset: xs.Dataset) -> None:
    with pytest.raises(
        SchemaError, match=r"no column 'kye'; the columns are 'k', 'x', 'text', 'moment'"
    ):
        dataset.sort("kye")
    with pytest.raises(SchemaError, match="nope"):
        dataset.sort(["k", "nope"])


def test_frames_of_pandas_without_columns_for_arrow() -> None:
    """Every bad column is named, also where pandas stops at the first."""
    pd = pytest.importorskip("pandas")
    mixed = pd.DataFrame({"ok": [1, 2], "m": [1, "a"], "s": [object(), None]})
    for call in (xs.from_pandas, xs.from_arrow):
        with pytest.raises(
            SchemaError, match=r"has columns 'm', 's' with values .*; convert with ast"
        ):
            call(mixed)
        with pytest.raises(SchemaError, match="two columns have the name 'a'; names must differ"):
            call(pd.DataFrame([[1, 2]], columns=["a", "a"]))
