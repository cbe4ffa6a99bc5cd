"""Ray Data on a one-machine cluster of its own; the memory limit becomes the size of its object store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.consume import consume
from benchmarks.peers.job import Job, run

if TYPE_CHECKING:
    import pyarrow as pa


def sort(job: Job) -> None:
    """See ``Job``."""
    import ray

    _start(job)
    # Without this, the numbers of output files are not in the order of the keys.
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    ray.data.read_parquet(job.input).sort("key").write_parquet(job.output, compression="none")
    ray.shutdown()


def random_shuffle(job: Job) -> None:
    """See ``Job``."""
    import ray

    _start(job)
    rows = ray.data.read_parquet(job.input).random_shuffle(seed=1)
    consume(rows.iter_batches(batch_size=None, batch_format="pyarrow"))
    ray.shutdown()


def group_by(job: Job) -> None:
    """See ``Job``."""
    import ray
    from ray.data.aggregate import Count, Min, Sum

    def with_k(rows: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        key = rows.column("key")
        multiple = pc.multiply(pc.divide(key, job.num_keys), job.num_keys)
        return rows.select(["row"]).append_column("k", pc.subtract(key, multiple))

    _start(job)
    rows = ray.data.read_parquet(job.input, columns=["key", "row"])
    groups = rows.map_batches(with_k, batch_format="pyarrow", batch_size=None).groupby("k")
    result = groups.aggregate(
        Count(alias_name="n"), Sum("row", alias_name="total"), Min("row", alias_name="lowest")
    )
    result.write_parquet(job.output, compression="none")
    ray.shutdown()


def _start(job: Job) -> None:
    import ray

    ray.init(
        num_cpus=job.num_threads,
        object_store_memory=job.memory_limit_bytes,
        include_dashboard=False,
        log_to_driver=False,
        object_spilling_directory=job.scratch,
    )


if __name__ == "__main__":
    run(sort, random_shuffle, group_by)
