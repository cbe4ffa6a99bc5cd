"""Polars at db-benchmark: lazy scans, the streaming engine, and a sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.job import Job, run_named
from benchmarks.peers.polars import scan, write

if TYPE_CHECKING:
    import polars as pl

#: Opens a table by its name.
Tables = Callable[[str], "pl.LazyFrame"]


def group_q1(table: Tables) -> pl.LazyFrame:
    """See ``benchmarks.db_questions``, which describes all of these."""
    return table("x").group_by("id1").agg(_sum("v1"))


def group_q2(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").group_by("id1", "id2").agg(_sum("v1"))


def group_q3(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").group_by("id3").agg(_sum("v1"), _mean("v3"))


def group_q4(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").group_by("id4").agg(_mean("v1"), _mean("v2"), _mean("v3"))


def group_q5(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").group_by("id6").agg(_sum("v1"), _sum("v2"), _sum("v3"))


def group_q6(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    import polars as pl

    value = pl.col("v3")
    groups = table("x").group_by("id4", "id5")
    return groups.agg(median_v3=value.median(), sd_v3=value.std())


def group_q7(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    import polars as pl

    groups = table("x").group_by("id3")
    return groups.agg(range_v1_v2=pl.col("v1").max() - pl.col("v2").min())


def group_q8(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    import polars as pl

    return table("x").group_by("id6").agg(largest2_v3=pl.col("v3").top_k(2))


def group_q9(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    import polars as pl

    return table("x").group_by("id2", "id4").agg(r2=pl.corr("v1", "v2") ** 2)


def group_q10(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    import polars as pl

    keys = [f"id{index}" for index in range(1, 7)]
    return table("x").group_by(keys).agg(_sum("v3"), count=pl.len())


def join_q1(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").join(table("small"), on="id1", suffix="_small")


def join_q2(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").join(table("medium"), on="id2", suffix="_medium")


def join_q3(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").join(table("medium"), on="id2", how="left", suffix="_medium")


def join_q4(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").join(table("medium"), on="id5", suffix="_medium")


def join_q5(table: Tables) -> pl.LazyFrame:
    """See ``group_q1``."""
    return table("x").join(table("big"), on="id3", suffix="_big")


ANSWERS: dict[str, Callable[[Tables], pl.LazyFrame]] = {
    made.__name__: made
    for made in (
        group_q1,
        group_q2,
        group_q3,
        group_q4,
        group_q5,
        group_q6,
        group_q7,
        group_q8,
        group_q9,
        group_q10,
        join_q1,
        join_q2,
        join_q3,
        join_q4,
        join_q5,
    )
}


def answer(job: Job) -> None:
    """Answers the question that is the job's operator."""
    # All are opened first: this sets the variables that Polars reads when it is imported.
    tables = {folder.name: scan(job, str(folder)) for folder in Path(job.input).iterdir()}
    write(ANSWERS[job.operator](tables.__getitem__), job)


def _sum(column: str) -> pl.Expr:
    """Sums in 64 bits, whatever the type of the column."""
    import polars as pl

    value = pl.col(column)
    return value.sum() if column == "v3" else value.cast(pl.Int64).sum()


def _mean(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).mean()


if __name__ == "__main__":
    run_named(dict.fromkeys(ANSWERS, answer))
