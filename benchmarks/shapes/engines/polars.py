"""Polars: every shape in lazy expressions, run by its streaming engine without a memory limit.

It has no random order of a lazy frame, so ``random_order`` is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.peers import db_polars
from benchmarks.peers.job import Job, run_named
from benchmarks.shapes.engines import polars_tpch
from benchmarks.shapes.tables import Tables, constants_of

if TYPE_CHECKING:
    import polars as pl

Rows: TypeAlias = "pl.LazyFrame"
Answer = Callable[[Tables[Rows]], Rows]


def filter_one(table: Tables[Rows]) -> Rows:
    """See ``benchmarks.shapes.catalogue``, which describes all of these."""
    import polars as pl

    return table("events").filter(pl.col("id") == 77)


def filter_group(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    return _by_country(table("events").filter(pl.col("amount") > 9990))


def join_distinct(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    users = table("events").filter(pl.col("amount") > 9990).select("user").unique()
    chosen = table("events").join(users, on="user", how="semi")
    return chosen.group_by("country").agg(n=pl.len())


def totals(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    col = pl.col
    made = {"total": col("amount").sum(), "first": col("ts").min(), "last": col("name").max()}
    return table("events").select(n=pl.len(), **made)


def tiny_filter(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    return table("events").filter(pl.col("quantity") == 50)


def group_median(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    amount = pl.col("amount")
    groups = table("events").group_by("user", "country")
    return groups.agg(n=pl.len(), total=amount.sum(), middle=amount.median())


def group_distinct(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    return table("events").group_by("country").agg(names=pl.col("name").n_unique())


def wide_sums(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    return table("wide").group_by(k=pl.col("id") % 10).agg(pl.all().exclude("id").sum())


def texts_filter(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    return table("texts").filter(pl.col("text").str.contains("cafe", literal=True))


def dictionary_group(table: Tables[Rows]) -> Rows:
    """See ``filter_one``."""
    import polars as pl

    groups = table("dictionaries").group_by("city", "kind")
    return groups.agg(n=pl.len(), total=pl.col("value").sum())


def nested_explode(table: Tables[Rows]) -> Rows:
    """See ``filter_one``. A row of an empty list is one with null, which SQL's ``unnest`` leaves out."""
    import polars as pl

    tags = table("nested").select(tag="tags").explode("tag").drop_nulls()
    return tags.group_by("tag").agg(n=pl.len())


def group_q8(table: Tables[Rows]) -> Rows:
    """See ``filter_one``. The values of a group are in no order unless they are sorted."""
    import polars as pl

    values = pl.col("largest2_v3").list.sort(descending=True)
    return db_polars.ANSWERS["group_q8"](table).with_columns(values)


def _by_country(rows: Rows) -> Rows:
    import polars as pl

    return rows.group_by("country").agg(n=pl.len(), total=pl.col("amount").sum())


def _sorted(name: str, *keys: str) -> Answer:
    return lambda table: table(name).sort(keys)


def _joined(table: Tables[Rows]) -> Rows:
    lineitem, orders = table("lineitem"), table("orders")
    return lineitem.join(orders, left_on="l_orderkey", right_on="o_orderkey", coalesce=False)


_BY_DATE = _sorted("lineitem", "l_shipdate", "l_orderkey", "l_linenumber")
_BY_AMOUNT = _sorted("events", "amount", "id")

ANSWERS: dict[str, Answer] = {
    "filter_one": filter_one,
    "filter_group": filter_group,
    "sort_limit": lambda table: table("events").sort("amount", "id").head(10),
    "join_distinct": join_distinct,
    "totals": totals,
    "tiny_filter": tiny_filter,
    "tiny_group": lambda table: _by_country(table("events")),
    "tiny_join": lambda table: table("events").join(table("countries"), on="country"),
    "tiny_sort": _BY_AMOUNT,
    "sort_narrow": lambda table: table("events").select("id").sort("id"),
    "sort_strings": _sorted("events", "name", "id"),
    "sort_zstd": _sorted("events", "country", "amount", "id"),
    "distinct_strings": lambda table: table("events").select("name").unique(),
    "group_median": group_median,
    "group_distinct": group_distinct,
    "wide_sums": wide_sums,
    "wide_sort": _sorted("wide", "id"),
    "wide_pick": lambda table: table("wide").select("c0007", "id", "c0042").sort("c0007", "id"),
    "hundred_sort": _sorted("hundred", "id"),
    "texts_sort": _sorted("texts", "id"),
    "texts_filter": texts_filter,
    "join_views": _joined,
    "join_strings": _joined,
    "sort_views": _BY_DATE,
    "sort_plain": _BY_DATE,
    "dictionary_group": dictionary_group,
    "dictionary_sort": _sorted("dictionaries", "city", "id"),
    "nested_sort": _sorted("nested", "id"),
    "nested_explode": nested_explode,
    "csv_sort": _BY_AMOUNT,
    "csv_group": lambda table: _by_country(table("events")),
    "files_sort": _BY_AMOUNT,
    "files_group": lambda table: _by_country(table("events")),
    **{f"db_{name}": made for name, made in db_polars.ANSWERS.items()},
    "db_group_q8": group_q8,
    **polars_tpch.ANSWERS,
}


def answer(job: Job) -> None:
    """Answers the shape that is the job's operator, into one file."""
    os.environ["POLARS_MAX_THREADS"] = str(job.num_threads)
    import polars as pl
    import polars.selectors as cs

    def opened(name: str) -> Rows:
        folder = Path(job.input, name)
        if any(folder.glob("*.csv")):
            return pl.scan_csv(folder / "*.csv", try_parse_dates=True)
        rows = pl.scan_parquet(folder / "*.parquet")
        # See ``polars_tpch`` for why; other shapes add no decimals up.
        return rows.with_columns(cs.decimal().cast(pl.Float64)) if is_tpch else rows

    is_tpch = job.operator in polars_tpch.ANSWERS
    rows = ANSWERS[job.operator](Tables(opened, constants_of(job.scale)))
    if job.written_as == "csv":
        rows.sink_csv(job.output, engine="streaming")
    else:
        rows.sink_parquet(
            job.output,
            compression="zstd" if job.written_as == "zstd" else "uncompressed",
            engine="streaming",
        )


if __name__ == "__main__":
    run_named(dict.fromkeys(ANSWERS, answer))
