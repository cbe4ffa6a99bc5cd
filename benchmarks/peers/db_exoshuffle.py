"""Exoshuffle at db-benchmark: each question as a user would put it, read from Parquet and written to it.

There is no aggregate for a correlation, so ``group_q9`` computes it from sums, which are exact for whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.peers.exoshuffle import started
from benchmarks.peers.job import Job, run_named

if TYPE_CHECKING:
    from exoshuffle import Dataset

#: Opens a table by its name.
Tables = Callable[[str], "Dataset"]

_CROSS, _FIRST, _SECOND = ("(n * xy - x * y)", "(n * xx - x * x)", "(n * yy - y * y)")
_R2 = f"pow({_CROSS}, 2)::double / ({_FIRST}::double * {_SECOND})"


def regression(x: Dataset) -> Dataset:
    """Computes the square of the correlation of ``v1`` and ``v2``."""
    products = x.with_columns(xy="v1 * v2", xx="v1 * v1", yy="v2 * v2")
    sums = {"x": "v1", "y": "v2", "xy": "xy", "xx": "xx", "yy": "yy"}
    moments = products.group_by("id2", "id4").agg(
        n="count", **{name: (column, "sum") for name, column in sums.items()}
    )
    return moments.select("id2", "id4", r2=_R2)


def _grouped(*keys: str, **aggregates: str | tuple[str, str] | tuple[str, str, float]) -> Answer:
    return lambda table: table("x").group_by(*keys).agg(**aggregates)


def _joined(other: str, on: str, how: str = "inner") -> Answer:
    return lambda table: table("x").join(table(other), on=on, how=how, suffix=f"_{other}")


Answer = Callable[[Tables], "Dataset"]

ANSWERS: dict[str, Answer] = {
    "group_q1": _grouped("id1", v1=("v1", "sum")),
    "group_q2": _grouped("id1", "id2", v1=("v1", "sum")),
    "group_q3": _grouped("id3", v1=("v1", "sum"), v3=("v3", "mean")),
    "group_q4": _grouped("id4", v1=("v1", "mean"), v2=("v2", "mean"), v3=("v3", "mean")),
    "group_q5": _grouped("id6", v1=("v1", "sum"), v2=("v2", "sum"), v3=("v3", "sum")),
    "group_q6": _grouped("id4", "id5", median_v3=("v3", "median"), sd_v3=("v3", "std")),
    "group_q7": lambda table: _grouped("id3", highest=("v1", "max"), lowest=("v2", "min"))(
        table
    ).select("id3", range_v1_v2="highest - lowest"),
    "group_q8": _grouped("id6", largest2_v3=("v3", "top_k", 2)),
    "group_q9": lambda table: regression(table("x")),
    "group_q10": _grouped(
        "id1", "id2", "id3", "id4", "id5", "id6", v3=("v3", "sum"), count="count"
    ),
    "join_q1": _joined("small", "id1"),
    "join_q2": _joined("medium", "id2"),
    "join_q3": _joined("medium", "id2", "left"),
    "join_q4": _joined("medium", "id5"),
    "join_q5": _joined("big", "id3"),
}


def answer(job: Job) -> None:
    """Answers the question that is the job's operator."""
    import exoshuffle as xs

    with started(job):
        result = ANSWERS[job.operator](lambda name: xs.read_parquet(f"{job.input}/{name}"))
        result.write_parquet(job.output, compression="none")


if __name__ == "__main__":
    run_named(dict.fromkeys(ANSWERS, answer))
