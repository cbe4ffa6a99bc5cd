"""Exoshuffle: every shape as a user would put it, on the embedded engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.peers import db_exoshuffle
from benchmarks.peers.exoshuffle import started
from benchmarks.peers.job import Job, run_named
from benchmarks.shapes.engines import exoshuffle_tpch
from benchmarks.shapes.tables import Tables, constants_of

if TYPE_CHECKING:
    import exoshuffle as xs

Rows: TypeAlias = "xs.Dataset"


def join_distinct(table: Tables[Rows]) -> Rows:
    """See ``benchmarks.shapes.catalogue``, which describes all of these."""
    users = table("events").filter("amount > 9990").distinct("user")
    chosen = table("events").join(users, on="user", how="semi")
    return chosen.group_by("country").agg(n="count")


def filter_group(table: Tables[Rows]) -> Rows:
    """See ``join_distinct``."""
    return _by_country(table("events").filter("amount > 9990"))


def totals(table: Tables[Rows]) -> Rows:
    """See ``join_distinct``."""
    aggregates = {"total": ("amount", "sum"), "first": ("ts", "min"), "last": ("name", "max")}
    return table("events").group_by().agg(n="count", **aggregates)


def group_median(table: Tables[Rows]) -> Rows:
    """See ``join_distinct``."""
    groups = table("events").group_by("user", "country")
    return groups.agg(n="count", total=("amount", "sum"), middle=("amount", "median"))


def wide_sums(table: Tables[Rows]) -> Rows:
    """See ``join_distinct``."""
    rows = table("wide")
    sums = {name: (name, "sum") for name in rows.columns if name != "id"}
    return rows.with_columns(k="id % 10").group_by("k").agg(**sums)


def dictionary_group(table: Tables[Rows]) -> Rows:
    """See ``join_distinct``."""
    return table("dictionaries").group_by("city", "kind").agg(n="count", total=("value", "sum"))


def nested_explode(table: Tables[Rows]) -> Rows:
    """See ``join_distinct``. A row of an empty list is one with null, which SQL's ``unnest`` leaves out."""
    tags = table("nested").select("tags").explode("tags").drop_nulls()
    return tags.rename({"tags": "tag"}).group_by("tag").agg(n="count")


def _by_country(rows: Rows) -> Rows:
    return rows.group_by("country").agg(n="count", total=("amount", "sum"))


def _sorted(name: str, *keys: str) -> Answer:
    return lambda table: table(name).sort(keys)


def _joined(table: Tables[Rows]) -> Rows:
    return table("lineitem").join(table("orders"), left_on="l_orderkey", right_on="o_orderkey")


Answer = Callable[[Tables[Rows]], Rows]

_BY_DATE = _sorted("lineitem", "l_shipdate", "l_orderkey", "l_linenumber")
_BY_AMOUNT = _sorted("events", "amount", "id")

ANSWERS: dict[str, Answer] = {
    "filter_one": lambda table: table("events").filter("id = 77"),
    "filter_group": filter_group,
    "sort_limit": lambda table: table("events").sort(["amount", "id"]).limit(10),
    "join_distinct": join_distinct,
    "totals": totals,
    "tiny_filter": lambda table: table("events").filter("quantity = 50"),
    "tiny_group": lambda table: _by_country(table("events")),
    "tiny_join": lambda table: table("events").join(table("countries"), on="country"),
    "tiny_sort": _BY_AMOUNT,
    "sort_narrow": lambda table: table("events").select("id").sort("id"),
    "sort_strings": _sorted("events", "name", "id"),
    "sort_zstd": _sorted("events", "country", "amount", "id"),
    "random_order": lambda table: table("events").random_shuffle(),
    "distinct_strings": lambda table: table("events").select("name").distinct(),
    "group_median": group_median,
    "group_distinct": lambda table: (
        table("events").group_by("country").agg(names=("name", "count_distinct"))
    ),
    "wide_sums": wide_sums,
    "wide_sort": _sorted("wide", "id"),
    "wide_pick": lambda table: table("wide").select("c0007", "id", "c0042").sort(["c0007", "id"]),
    "hundred_sort": _sorted("hundred", "id"),
    "texts_sort": _sorted("texts", "id"),
    "texts_filter": lambda table: table("texts").filter("text like '%cafe%'"),
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
    **{f"db_{name}": made for name, made in db_exoshuffle.ANSWERS.items()},
    **exoshuffle_tpch.ANSWERS,
}


def answer(job: Job) -> None:
    """Answers the shape that is the job's operator, into a folder."""
    import exoshuffle as xs

    def opened(name: str) -> Rows:
        folder = Path(job.input, name)
        is_csv = any(folder.glob("*.csv"))
        return xs.read_csv(folder) if is_csv else xs.read_parquet(folder)

    with started(job):
        rows = ANSWERS[job.operator](Tables(opened, constants_of(job.scale)))
        if job.written_as == "csv":
            rows.write_csv(job.output)
        else:
            rows.write_parquet(
                job.output, compression="zstd" if job.written_as == "zstd" else "none"
            )


if __name__ == "__main__":
    run_named(dict.fromkeys(ANSWERS, answer))
