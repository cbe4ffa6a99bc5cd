"""Every reader, operator and sink on plain values, in one program: ``test_pandas`` runs it beside a false pandas.

Usage: python pandas_free_program.py FOLDER, which has rows.parquet, rare.parquet, rows.csv, rows.jsonl, rows.arrow and
bad.csv.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import exoshuffle as xs


def programs(folder: Path) -> dict[str, Callable[[], object]]:
    """Returns what is run, by name."""
    rows = xs.read_parquet(folder / "rows.parquet")
    rare = xs.read_parquet(folder / "rare.parquet")
    few = rows.select("id", "g", "t")
    by_group = few.group_by("g")
    left = rows.select("id", "at", "g", "amount")

    def unchanged(batch: object) -> object:
        return batch

    def written(name: str) -> Path:
        return folder / "out" / name

    return {
        "read csv": lambda: xs.read_csv(folder / "rows.csv").to_arrow(),
        "read json": lambda: xs.read_json(folder / "rows.jsonl").to_arrow(),
        "read ipc": lambda: xs.read_ipc(folder / "rows.arrow").to_arrow(),
        "read text": lambda: xs.read_text(folder / "rows.csv").to_arrow(),
        "read binary": lambda: xs.read_binary(folder / "rows.csv").to_arrow(),
        "read records": lambda: xs.read_records(folder / "records").sort().to_arrow(),
        "read, bad rows skipped": lambda: xs.read_csv(
            folder / "bad.csv", bad_rows="skip"
        ).to_arrow(),
        "read, bad rows written": lambda: xs.read_csv(
            folder / "bad.csv", bad_rows=folder / "found.csv"
        ).to_arrow(),
        "from_arrow": lambda: xs.from_arrow(few.to_arrow()).sort("t").to_arrow(),
        "range": lambda: xs.range(5, 100, 3).filter("id > 7").to_arrow(),
        "sort": lambda: rows.sort(["g", "t"], descending=[True, False]).to_arrow(),
        "sort, dealt": lambda: rows.sort("at").write_parquet(written("sort")),
        "top_k": lambda: rows.sort("t").limit(3).to_arrow(),
        "top_k, no rows": lambda: rows.filter("id < 0").sort("t").limit(3).to_arrow(),
        "limit": lambda: rows.limit(3).to_arrow(),
        "filter": lambda: rows.filter("id > 5 AND t LIKE '%1'").to_arrow(),
        "filter by an object": lambda: rows.filter(xs.col("amount") > 2.5).to_arrow(),
        "filter by moments": lambda: rows.filter("\"at\" >= TIMESTAMP '2020-01-02'").to_arrow(),
        "filter, no rows": lambda: rows.filter("id < 0").sort("id").to_arrow(),
        "select": lambda: rows.select("g", twice="2 * id", text="upper(t)").to_arrow(),
        "with_columns": lambda: rows.with_columns(half="amount / 2").to_arrow(),
        "cast": lambda: few.cast({"id": "float64", "g": "string"}).to_arrow(),
        "fill_null": lambda: rows.fill_null(0).fill_null("none").to_arrow(),
        "fill_null, by column": lambda: rows.fill_null({"amount": 1.5, "yes": True}).to_arrow(),
        "drop_nulls": lambda: rows.drop_nulls().to_arrow(),
        "explode": lambda: rows.explode("list").to_arrow(),
        "unpivot": lambda: few.unpivot(["id", "g"], index="t").to_arrow(),
        "pivot": lambda: few.pivot("g", index="t", values="id").to_arrow(),
        "union": lambda: few.union(few).to_arrow(),
        "sample, fraction": lambda: rows.sample(fraction=0.5, seed=1).to_arrow(),
        "sample, rows": lambda: rows.sample(5, seed=1).to_arrow(),
        "random_shuffle": lambda: rows.random_shuffle(seed=1).to_arrow(),
        "random_shuffle, window": lambda: rows.random_shuffle(seed=1, window=10).to_arrow(),
        "repartition": lambda: rows.repartition(3).to_arrow(),
        "map_batches": lambda: rows.map_batches(unchanged).to_arrow(),
        "map_groups": lambda: by_group.map_groups(unchanged).to_arrow(),
        "agg": lambda: by_group.agg(
            n="count", s=("id", "sum"), m=("id", "mean"), f=("t", "first")
        ).to_arrow(),
        "agg, whole groups": lambda: by_group.agg(
            m=("id", "median"), d=("t", "count_distinct")
        ).to_arrow(),
        "agg, lists": lambda: by_group.agg(x=("t", "list"), y=("id", "list")).to_arrow(),
        "agg, lists of rare types": lambda: (
            rare.group_by("id").agg(x=("bytes", "list"), y=("row", "list")).to_arrow()
        ),
        "agg, key of nanoseconds": lambda: rows.group_by("ns").agg(n="count").to_arrow(),
        "map_groups, key in a zone": lambda: (
            rows.limit(5).group_by("zone").map_groups(unchanged).to_arrow()
        ),
        "agg, key of dictionary": lambda: rows.group_by("kind").agg(n="count").to_arrow(),
        "agg, streamed": lambda: list(by_group.agg(s=("id", "sum")).stream(seed=1)),
        "distinct": lambda: rows.select("g").distinct().to_arrow(),
        "distinct, by columns": lambda: rows.distinct("kind").to_arrow(),
        "join, broadcast": lambda: left.join(few, on="id").to_arrow(),
        "join, shuffled": lambda: left.join(few, on="id", num_partitions=2).to_arrow(),
        "join, left": lambda: left.join(few, on="g", how="left", num_partitions=2).to_arrow(),
        "join, full": lambda: left.join(few.limit(9), on="id", how="full").to_arrow(),
        "join, semi": lambda: left.join(few, on="id", how="semi", num_partitions=2).to_arrow(),
        "join, cross": lambda: few.limit(3).join(left.limit(2), how="cross").to_arrow(),
        "join, moments": lambda: left.join(rows.select("at", "ns"), on="at").to_arrow(),
        "join_asof": lambda: left.join_asof(rows.select("at", "t"), on="at").to_arrow(),
        "join_asof, nearest": lambda: left.join_asof(
            rows.select("g", "amount", "t"),
            on="amount",
            by="g",
            direction="nearest",
            tolerance=2,
        ).to_arrow(),
        "count": rows.count,
        "head": lambda: rows.head(3),
        "show": lambda: rows.show(3),
        "take": lambda: few.take(3),
        "rows": lambda: list(few.iter_rows()),
        "describe": rows.describe,
        "schema": lambda: (repr(rows), rows.schema, rows.columns),
        "explain": lambda: str(rows.sort("id").explain()),
        "batches": lambda: list(rows.iter_batches()),
        "write ipc": lambda: rows.write_ipc(written("ipc")),
        "write csv": lambda: few.write_csv(written("csv")),
        "write json": lambda: rows.write_json(written("json")),
        "write text": lambda: few.select("t").drop_nulls().write_text(written("text")),
        "write, partitioned": lambda: rows.write_parquet(written("by"), partition_by="g"),
        "read, partitioned": lambda: (
            xs.read_parquet(written("by")).filter("g = 1 AND id > 5").to_arrow()
        ),
        "tasks": lambda: xs.get(xs.remote(abs).remote(-1)),
    }


def main(folder: Path) -> None:
    """Runs all of them."""
    with xs.init(memory_limit="600MB"):
        for name, run in programs(folder).items():
            sys.stdout.write(f"-- {name}\n")
            run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
