"""Ray Data on a one-machine cluster of its own; the memory limit becomes the size of its object store."""

from __future__ import annotations

from benchmarks.engines.job import SortJob, run


def sort(job: SortJob) -> None:
    """See ``SortJob``."""
    import ray

    ray.init(
        num_cpus=job.num_threads,
        object_store_memory=job.memory_limit_bytes,
        include_dashboard=False,
        log_to_driver=False,
        object_spilling_directory=job.scratch,
    )
    # Without this, files of the output carry no numbers in the order of the keys.
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    ray.data.read_parquet(job.input).sort("key").write_parquet(job.output, compression="none")
    ray.shutdown()


if __name__ == "__main__":
    run(sort)
