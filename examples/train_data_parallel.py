"""Data-parallel training in PyTorch: several processes, one shuffle, and a stop in the middle that loses no row.

Run it: ``torchrun --nproc-per-node 2 examples/train_data_parallel.py`` (``pip install torch``).

All ranks meet at a door: rank 0 shuffles for all of them, and each gets its part of every batch. ``batch_size`` counts
the rows of all ranks together, and ``drop_last`` keeps their parts equal, since DDP averages gradients without weights.
The first life ends after some steps, as if it had been killed. The second one loads the state and goes on with the next
row. Rows that ranks have got are counted by ``all_reduce``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import exoshuffle as xs

ROWS, BATCH, EPOCHS = 20_000, 1000, 3
#: Steps of the first life: within the second epoch.
STOP = 27


def main() -> None:
    """Joins the other ranks, and trains with them."""
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as own:
        run(_shared(own))
        dist.barrier()  # the folder of rank 0 stays until all are done
    dist.destroy_process_group()


def run(folder: str) -> None:
    """Trains in two lives; rank 0 prints what the model has learnt, and how many rows came."""
    if dist.get_rank() == 0:
        xs.init(memory_limit="2GB")
        x = pa.array(row / ROWS for row in range(ROWS))
        label = pa.array(3 * row / ROWS for row in range(ROWS))
        pq.write_table(pa.table({"x": x, "label": label}), f"{folder}/samples.parquet")
    dist.barrier()
    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False).double())
    state, first = train(model, folder, None, STOP)
    state, second = train(model, folder, state, None)
    if dist.get_rank() == 0:
        print(f"weight {next(model.parameters()).item():.2f}, rows {first} + {second}, {state}")


def train(
    model: Any, folder: str, state: dict[str, Any] | None, steps: int | None
) -> tuple[dict[str, Any], int]:
    """Trains for some steps, or to the end; returns the state, and how many rows all ranks have got."""
    rank, world = dist.get_rank(), dist.get_world_size()
    loader = xs.DataLoader(
        xs.read_parquet(f"{folder}/samples.parquet"),
        batch_size=BATCH,
        seed=7,
        format="torch",
        drop_last=True,
        rank=rank,
        world=world,
        door=_shared(f"{folder}/{'first' if state is None else 'second'}"),
    )
    if state is not None:
        loader.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    num_rows = torch.zeros(1, dtype=torch.int64)
    for step, batch in enumerate(batches(loader), 1):
        x, label = batch["x"].unsqueeze(1), batch["label"].unsqueeze(1)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), label).backward()
        optimizer.step()
        num_rows += len(x)
        if step == steps:
            break
    dist.all_reduce(num_rows)
    return loader.state_dict(), int(num_rows)


def batches(loader: xs.DataLoader) -> Iterator[Any]:
    """Yields the batches of all epochs that are left."""
    for epoch in loader.epochs(EPOCHS):
        yield from epoch


def _shared(value: str) -> str:
    """Returns what rank 0 has."""
    values: list[Any] = [value]
    dist.broadcast_object_list(values)
    shared: str = values[0]
    return shared


if __name__ == "__main__":
    main()
