"""``DataLoader``: the batches of a dataset for training, epoch by epoch.

Guarantee: in every epoch each row comes exactly once, on one rank, however often training was killed and taken up
again. The next run may have another number of ranks, batch size, memory limit or engine, and other CPUs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from exoshuffle.arguments import check_flag, is_whole
from exoshuffle.dataset.arguments_elsewhere import refuse_arguments
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.splitting.coordinator import Coordinator
from exoshuffle.dataset.splitting.seat import Seat, seats_at
from exoshuffle.dataset.tree.seeds import seed_or_fresh
from exoshuffle.errors import OptionsError, shown
from exoshuffle.operators.tensors import AS_THEY_ARE, converter
from exoshuffle.training.checks import check_sizes, checked_shuffle, refuse_workers
from exoshuffle.training.file_rows import fingerprint, is_empty
from exoshuffle.training.meeting import awaited, check_door, opened
from exoshuffle.training.mix import Mix
from exoshuffle.training.mixing import fingerprint_of_mix, mixed_order
from exoshuffle.training.orders import Order, num_rows_of_files, order_of
from exoshuffle.training.ranks import RankLoader, RankOptions, coordinator_of
from exoshuffle.training.run import Batches, Run
from exoshuffle.training.shares import Shares
from exoshuffle.training.state import Cursor, Identity
from exoshuffle.training.torch_dataset import torch_dataset
from exoshuffle.units import counted


class DataLoader:
    """Hands out the rows of files in batches, epoch by epoch, each in an order of its own.

    **``batch_size`` is global**: the rows of one step on all ranks together. With ``batch_size=4096, world=8`` each
    rank gets 512 rows a step.

    >>> loader = xs.DataLoader(xs.read_parquet("train/"), batch_size=4096, seed=7)
    >>> for epoch in loader.epochs(10):
    ...     for batch in epoch:
    ...         step(batch["x"], batch["label"])

    Args:
        dataset: Rows of files, with steps that need no shuffle. Functions of yours only with ``shuffle=False``. Or
            several such datasets, as ``mix`` makes them one.
        batch_size: Rows of a batch, of all ranks together.
        shuffle: True for a uniformly random order; False for the order of the files. A size (``"64MB"``) makes windows,
            which come in random order, and so do the rows of each (``Dataset.random_shuffle(window=)``).
        seed: From 0 to 2**64 - 1; every epoch has an order that follows from it and from the epoch's number. Default: a
            fresh one, which ``state_dict`` tells; with several ranks it must be given.
        format: ``"numpy"``, ``"torch"`` or ``"jax"`` for a dictionary of arrays by column, ``"arrow"`` for record
            batches. Arrays lie in the store's memory, without a copy, where a column has numbers without nulls. These
            may be single, or in lists or tensors of a fixed shape. They must not be changed.
        rank: Number of this process among those that train together, from 0.
        world: Number of these processes. Each reads and shuffles all rows, and gets its share of every batch. Ranks of
            one machine share one shuffle by ``split`` or ``door``.
        drop_last: Leave out the last batch of an epoch if it has fewer rows.
        door: A folder for processes that a launcher has started on this machine, one for each rank of ``world``. Rank 0
            shuffles for all, and they meet there. Nobody else may use it; nothing need be there before. Default: each
            process shuffles for itself.
        **others: Options of PyTorch's loader, which are refused with what to write here.

    Raises:
        OptionsError: At once: an argument that cannot work, no rows, rows that are in no file, a loader in a worker
            process of PyTorch's.
        SchemaError: At once: tensors of the library cannot hold a column.

    Cost: that of ``random_shuffle`` once an epoch, without writing any files. With ``epochs``, the next shuffle runs
    while the program trains, so that spill directories hold up to two epochs. A program that keeps batches of more than
    two partitions gets copies, outside the memory limit. Source: Exoshuffle §5.3; Wang's dissertation, §3.3.3.2.
    """

    def __init__(  # noqa: PLR0913  what a loader hands out, to whom
        self,
        dataset: Dataset | Mix,
        batch_size: int,
        *,
        shuffle: bool | str = True,
        seed: int | None = None,
        format: str = "numpy",  # noqa: A002  its name everywhere
        rank: int = 0,
        world: int = 1,
        drop_last: bool = False,
        door: str | os.PathLike[str] | None = None,
        **others: object,
    ) -> None:
        refuse_arguments("DataLoader", others)
        refuse_workers()
        if not isinstance(dataset, Dataset | Mix):
            raise OptionsError(
                f"DataLoader got {shown(dataset)}; give a dataset, as read_parquet and its siblings make it, or a "
                "mixture of some by mix()"
            )
        check_sizes(batch_size, rank, world, seed)
        check_flag("drop_last", drop_last)
        self._shuffle = checked_shuffle(shuffle)
        self._given_seed = None if seed is None else seed_or_fresh(seed)
        self._seed = seed_or_fresh(seed)
        rows = _rows_of(dataset, self._shuffle)
        order, num_rows = rows.order, rows.num_rows
        self._dataset = dataset
        self._format = format
        self._batches = Batches(
            order,
            num_rows,
            self._seed_of,
            Shares(int(batch_size), int(rank), int(world), drop_last),
            converter(format, dataset.schema),
        )
        self._identity = Identity(self._shuffle, rows.num_files, num_rows, rows.fingerprint)
        self._cursor = Cursor()
        self._run: Run | None = None
        self._door = None if door is None else check_door(door)
        self._shared: RankLoader | None = None

    def __iter__(self) -> Iterator[Any]:
        """Returns the batches of one epoch: of the next one, or the rest of one that was left.

        No epoch is shuffled ahead here, since nobody says whether another one comes. A shuffle that nobody takes would
        use CPUs behind the loop, and memory and disk until the loader goes. ``epochs`` says how many come.
        """
        if self._door is not None:
            return self._met(self._door).epoch_of_all()
        return self._new_run(self._now().epoch + 1).epoch()

    def epochs(self, n: int) -> Iterator[Iterator[Any]]:
        """Yields ``n`` epochs, each as its batches; the next one is shuffled while the program trains on this one.

        After ``load_state_dict`` it goes on where the state stands, and ends with the same epoch as without a stop.
        Leaving an epoch for the next one leaves out the rest of its rows.

        Args:
            n: Number of epochs of the whole training, those before a stop included.

        Raises:
            OptionsError: ``n`` is no number of epochs.
        """
        if not is_whole(n) or n < 0:
            raise OptionsError(f"epochs got {shown(n)}; it must be a whole number from 0 on")
        if self._door is not None:
            return self._met(self._door).epochs_of_all(int(n))
        return self._new_run(int(n)).epochs()

    def __getitem__(self, row: object) -> None:
        """Refuses rows by number, which PyTorch's ``DataLoader`` asks of what is no ``IterableDataset``."""
        raise OptionsError(
            f"a DataLoader has no row by number, and was asked for {shown(row)}; iterate it, or give torch's "
            "DataLoader as its dataset loader.as_torch_dataset(), with batch_size=None"
        )

    def __len__(self) -> int:
        """Returns the number of batches of an epoch. Cost: that of ``Dataset.count``, where files do not tell it."""
        rows, size = self._num_rows(), self._batches.shares.batch_size
        return rows // size if self._batches.shares.drop_last else -(-rows // size)

    def __repr__(self) -> str:
        shares = self._batches.shares
        return (
            f"DataLoader(batch_size={shares.batch_size}, shuffle={self._shuffle!r}, seed={self._seed}, "
            f"format={self._format!r}, rank={shares.rank}, world={shares.world})"
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns where training stands: less than 200 bytes of JSON, equal on every rank.

        Rows count as handed over with their batch. So save it together with the model, after the step that used the
        last batch.
        """
        return self._identity.state(self._seed, self._now())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state stands, which any rank of any number of ranks has saved.

        The batch size, ``drop_last``, the format, the memory limit, the number of CPUs and the engine may be others
        than they were. The rest of the epoch is cut into batches from its next row on.

        Args:
            state: A state that ``state_dict`` returned.

        Raises:
            OptionsError: It is no state, it is one of other files, filters, shuffle, seed or version, or an iteration
                has begun.

        Cost: nothing here. The first batch then comes as at the beginning of an epoch. The epoch is shuffled, and
        partitions of rows that were handed over are not made. Where files do not tell their numbers of rows (text,
        filters), these partitions are made and left out.
        """
        if self._run is not None or self._shared is not None:
            raise OptionsError(
                "load_state_dict came after the iteration began; load the state into a new loader, before its first "
                "batch"
            )
        self._seed, self._cursor = self._identity.loaded(state, self._given_seed)

    def split(self, world: int) -> list[RankLoader]:
        """Returns a loader for each of ``world`` ranks, which share one shuffle: threads, actors or processes.

        >>> trainers = [Trainer.remote(rank) for rank in loader.split(8)]

        Batches are those of loaders with ``rank=`` and ``world=``, which would shuffle all rows each. Ranks iterate by
        ``epochs(n)`` or a loop, all alike, and have a ``state_dict()``. A rank waits while it is more than a step ahead
        of the slowest. After a minute the logger ``exoshuffle`` names the rank that others wait for. A rank may be
        pickled for another process of this machine, and takes copies of its rows by a Unix socket.

        Args:
            world: Number of ranks; ``batch_size`` counts the rows of all of them.

        Raises:
            OptionsError: At once: fewer rows in a batch than ranks, or a loader that is a rank already.
            WorkerDiedError: In all ranks: one of them ended before its last step.

        Cost: nothing here; then one shuffle an epoch in this process, whatever the number of ranks.
        """
        if self._batches.shares.world > 1:
            raise OptionsError(
                f"split came to a loader that is rank {self._batches.shares.rank} of {self._batches.shares.world}; "
                "make it without rank= and world="
            )
        check_sizes(self._batches.shares.batch_size, 0, world, self._seed)
        seats = seats_at(self._coordinator(int(world)))
        return [self._ranked(seat, rank, int(world)) for rank, seat in enumerate(seats)]

    def as_torch_dataset(self) -> Iterable[Any]:
        """Returns the batches as a ``torch.utils.data.IterableDataset``, for what wants torch's own ``DataLoader``.

        >>> batches = torch.utils.data.DataLoader(loader.as_torch_dataset(), batch_size=None)

        ``batch_size=None`` leaves batches as they are. A loop is one epoch of this loader, which keeps the state; use
        the loader itself where you can, since only ``epochs`` shuffles ahead.

        Raises:
            OptionsError: PyTorch is not installed; or later: torch's loader has worker processes.
        """
        return torch_dataset(self, self.__len__)

    def rows_of(self, epoch: int, step: int) -> list[tuple[str, int]]:
        """Returns which rows a batch has, of all ranks together and in their order: file, and row in the file.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the batch in the epoch, from 0, with the batch size of this loader from the first row on.

        Raises:
            OptionsError: There is no such batch, or files do not tell their numbers of rows.

        Cost: no file is read; 30 ns for each row of the dataset.
        """
        num_rows, shares = self._batches.num_rows, self._batches.shares
        if num_rows is None or not self._batches.order.tells_rows:
            raise OptionsError(
                "rows_of needs files that tell their numbers of rows, and no filter; text does not, so write the rows "
                "to Parquet first"
            )
        if not is_whole(epoch) or epoch < 0:
            raise OptionsError(f"epoch is {shown(epoch)}; it must be a whole number from 0 on")
        if not is_whole(step) or not 0 <= step < len(self):
            raise OptionsError(
                f"step is {shown(step)}; steps of an epoch are from 0 to {len(self) - 1}"
            )
        start = int(step) * shares.batch_size
        stop = min(start + shares.batch_size, num_rows)
        return self._batches.order.rows(self._seed_of(int(epoch)), start, stop)

    def _now(self) -> Cursor:
        if self._shared is not None:
            return self._shared.cursor
        return self._cursor if self._run is None else self._run.cursor

    def _met(self, door: str) -> RankLoader:
        """Returns the loader of this rank, once it has met the others."""
        refuse_workers()
        if self._shared is None:
            shares = self._batches.shares
            self._shared = self._ranked(
                opened(door, self._coordinator(shares.world))
                if shares.rank == 0
                else awaited(door, shares.rank),
                shares.rank,
                shares.world,
            )
        return self._shared

    def _coordinator(self, world: int) -> Coordinator:
        shares = replace(self._batches.shares, rank=0, world=1)
        return coordinator_of(replace(self._batches, shares=shares, convert=AS_THEY_ARE), world)

    def _ranked(self, seat: Seat, rank: int, world: int) -> RankLoader:
        return RankLoader(
            seat,
            RankOptions(
                rank=rank,
                world=world,
                format=self._format,
                schema=self._dataset.schema,
                identity=self._identity,
                seed=self._seed,
                cursor=self._cursor if self._run is None else self._run.cursor,
            ),
        )

    def _new_run(self, num_epochs: int) -> Run:
        refuse_workers()
        cursor = self._now()
        if self._run is not None:
            self._run.end()
        self._run = Run(self._batches, cursor, num_epochs)
        return self._run

    def _seed_of(self, epoch: int) -> int:
        """Returns the seed of an epoch's order."""
        digest = hashlib.blake2b(f"{self._seed} {epoch}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def _num_rows(self) -> int:
        known = self._batches.num_rows
        if known is not None:
            return known
        assert isinstance(self._dataset, Dataset)  # a mixture has counted its rows
        return self._dataset.count()


class _LoaderRows(NamedTuple):
    """The rows that a loader hands out, and the facts that tell it from others.

    Attributes:
        order: The order of the rows.
        num_rows: Rows of an epoch; None where files do not tell.
        num_files: Number of files.
        fingerprint: See ``Identity``.
    """

    order: Order
    num_rows: int | None
    num_files: int
    fingerprint: str


def _rows_of(given: Dataset | Mix, shuffle: bool | str) -> _LoaderRows:
    """Returns the rows of a dataset or a mixture.

    Raises:
        OptionsError: A dataset has no rows, or its rows are in no file.
    """
    if isinstance(given, Mix):
        mixed = mixed_order(given, shuffle)
        num_files = sum(len(dataset.files) for dataset in given.datasets)
        return _LoaderRows(mixed, mixed.picks.num_rows, num_files, fingerprint_of_mix(given))
    num_files = len(given.files)
    if is_empty(given.node):
        raise OptionsError(
            f"DataLoader got {counted(num_files, 'file')} without any row; give files with rows"
        )
    order = order_of(given.node, shuffle)
    return _LoaderRows(order, num_rows_of_files(order), num_files, fingerprint(given.node))
