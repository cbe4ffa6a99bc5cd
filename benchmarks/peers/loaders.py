"""Loaders for training on one Parquet file of float32 columns: an epoch in random order, as PyTorch tensors.

Run it with the interpreter of an environment that has the peers (``pip install torch datasets grain mosaicml-streaming
ray[data]``) and this project: ``python -m benchmarks.peers.loaders FOLDER --rows 11000000``. The file is made if it is
missing. Each loader has a process of its own; one that is not installed says so. Printed are the seconds until a loader
may begin, and the seconds and CPU seconds of an epoch. Before it begins, *conversion* reads the file whole, or turns it
into what the loader reads.

Guarantee: an epoch of each has every row once: numbers of rows and the sum of the first column are checked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COLUMNS, BATCH = 29, 4096
FILE = "rows.parquet"


def exoshuffle(folder: Path) -> Callable[[], Iterator[Any]]:
    """A uniform order; nothing is converted."""
    import exoshuffle as xs

    xs.init(memory_limit="2GB", num_cpus=2)
    rows = xs.read_parquet(folder / FILE)
    return lambda: iter(xs.DataLoader(rows, batch_size=BATCH, seed=1, format="torch"))


def torch(folder: Path) -> Callable[[], Iterator[Any]]:
    """A tensor in memory, from which torch's loader takes the rows of a batch at once."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    rows = {name: torch.from_numpy(values) for name, values in _arrays(folder).items()}

    class Rows(torch.utils.data.Dataset):  # type: ignore[misc]  # torch need not be installed
        def __len__(self) -> int:
            return len(rows["c0"])

        def __getitem__(self, places: list[int]) -> dict[str, Any]:
            return {name: column[places] for name, column in rows.items()}

    order = BatchSampler(RandomSampler(Rows()), BATCH, drop_last=False)
    return lambda: iter(DataLoader(Rows(), sampler=order, batch_size=None))


def datasets(folder: Path) -> Callable[[], Iterator[Any]]:
    """Hugging Face's dataset, in its own copy of the file, shuffled by indices."""
    import datasets

    cache = str(folder / "datasets")
    rows = datasets.Dataset.from_parquet(str(folder / FILE), cache_dir=cache, keep_in_memory=False)
    return lambda: rows.shuffle(seed=1).with_format("torch").iter(BATCH)


def grain(folder: Path) -> Callable[[], Iterator[Any]]:
    """A matrix in memory, whose rows are shuffled one by one."""
    import grain
    import numpy as np
    import torch

    matrix = np.stack(list(_arrays(folder).values()), axis=1)
    shuffled = grain.MapDataset.source(matrix).shuffle(seed=1)

    def batches() -> Iterator[Any]:
        for batch in shuffled.to_iter_dataset().batch(BATCH):
            yield {"c0": torch.from_numpy(batch)[:, 0]}

    return batches


def streaming(folder: Path) -> Callable[[], Iterator[Any]]:
    """MosaicML's Streaming, whose own files the rows are written to, one by one; two processes read them."""
    import numpy as np
    from streaming import MDSWriter, StreamingDataset
    from torch.utils.data import DataLoader

    made = folder / "mds"
    shutil.rmtree(made, ignore_errors=True)
    with MDSWriter(out=str(made), columns={"row": f"ndarray:float32:{COLUMNS}"}) as writer:
        for row in np.stack(list(_arrays(folder).values()), axis=1):
            writer.write({"row": row})
    rows = StreamingDataset(local=str(made), shuffle=True, shuffle_seed=1, batch_size=BATCH)

    def batches() -> Iterator[Any]:
        for batch in DataLoader(rows, batch_size=BATCH, num_workers=2):
            yield {"c0": batch["row"][:, 0]}

    return batches


def ray(folder: Path) -> Callable[[], Iterator[Any]]:
    """Ray Data, which shuffles all rows; nothing is converted. The CPU seconds of its processes are not counted."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    rows = ray.data.read_parquet(str(folder / FILE))
    return lambda: iter(rows.random_shuffle(seed=1).iter_torch_batches(batch_size=BATCH))


LOADERS = {
    loader.__name__: loader for loader in (exoshuffle, torch, datasets, grain, streaming, ray)
}


def _arrays(folder: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / FILE)
    return {name: table[name].to_numpy().copy() for name in table.column_names}


def make(folder: Path, num_rows: int) -> None:
    """Writes the file: random columns, but that the first one has the numbers from 0 to 999 in turn."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    columns = {f"c{place}": pc.random(num_rows).cast(pa.float32()) for place in range(1, COLUMNS)}
    first = pa.array([float(row % 1000) for row in range(num_rows)], pa.float32())
    pq.write_table(pa.table({"c0": first, **columns}), folder / FILE, compression="none")


def measure(name: str, folder: Path) -> dict[str, float]:
    """Returns the seconds of a loader's conversion and of an epoch, and what came out of it."""
    begun = time.monotonic()
    start = LOADERS[name](folder)
    converted, cpu = time.monotonic(), _cpu_seconds()
    num_rows, total = 0, 0.0
    for batch in start():
        num_rows += len(batch["c0"])
        total += float(batch["c0"].double().sum())
    return {
        "conversion": converted - begun,
        "epoch": time.monotonic() - converted,
        "cpu": _cpu_seconds() - cpu,
        "rows": num_rows,
        "sum": total,
    }


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    """Measures all loaders, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--loader", choices=LOADERS)
    given = parser.parse_args()
    if given.loader is not None:
        print(json.dumps(measure(given.loader, given.folder)))
        return
    if not (given.folder / FILE).exists():
        make(given.folder, given.rows)
    for name in LOADERS:
        print(f"{name:12}", _line(name, given.folder, given.rows), flush=True)


def _line(name: str, folder: Path, num_rows: int) -> str:
    if importlib.util.find_spec(name) is None or importlib.util.find_spec("torch") is None:
        return "not installed"
    command = [sys.executable, "-m", "benchmarks.peers.loaders", str(folder), "--loader", name]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1:]}"
    made = json.loads(done.stdout.splitlines()[-1])
    whole, rest = divmod(num_rows, 1000)
    expected = (num_rows, whole * 499_500 + rest * (rest - 1) // 2)
    if (made["rows"], made["sum"]) != expected:
        return f"wrong: {made['rows']} rows of sum {made['sum']}, not {expected}"
    return f"conversion {made['conversion']:.1f} s, epoch {made['epoch']:.1f} s, CPU {made['cpu']:.1f} s"


if __name__ == "__main__":
    main()
